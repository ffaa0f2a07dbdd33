import descent.broadcast.causal.preventive.MRegularBroadcast;
import descent.broadcast.causal.preventive.PreventiveCausalBroadcast;
import descent.broadcast.reliable.MReliableBroadcast;
import descent.rps.IMessage;
import peersim.core.CommonState;
import peersim.core.Node;

/**
 * PC-broadcast of peersim-pcbroadcast, with a receive path that works. The original compares the envelope with the class
 * of the payload, so that it drops every message. Frames and deliveries are counted over all processes.
 */
public class PeerBroadcast extends PreventiveCausalBroadcast {
	static long frames, deliveries, waited;

	private static final class Spoken implements IMessage {
		final long at = CommonState.getTime();

		@Override
		public Object getPayload() {
			return null;
		}
	}

	public PeerBroadcast(String prefix) {
		super(prefix);
	}

	private PeerBroadcast() {
	}

	void speak(Node node) {
		_setNode(node);
		cbroadcast(new Spoken());
	}

	@Override
	public void processEvent(Node node, int protocol, Object message) {
		if (message instanceof IMessage) { // the others are calls of the overlay, not frames
			++frames;
		}
		if (message instanceof MReliableBroadcast) {
			_setNode(node);
			MReliableBroadcast m = (MReliableBroadcast) message;
			if (!received.contains(m.id, m.counter)) {
				received.add(m.id, m.counter);
				_sendToAllNeighbors(m);
				rDeliver(m);
			}
		} else {
			super.processEvent(node, protocol, message);
		}
	}

	@Override
	public void cDeliver(MRegularBroadcast m) {
		++deliveries;
		waited += CommonState.getTime() - ((Spoken) m.getPayload()).at;
	}

	@Override
	public Object clone() {
		return new PeerBroadcast();
	}
}
