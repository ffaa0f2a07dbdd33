import com.sun.management.OperatingSystemMXBean;
import descent.bidirectionnal.BiSpray;
import java.lang.management.ManagementFactory;
import java.util.HashSet;
import peersim.config.Configuration;
import peersim.core.CommonState;
import peersim.core.Control;
import peersim.core.Network;
import peersim.core.Node;

/** Lets one process after the other broadcast, and prints the totals at the end. */
public class PeerSpeaker implements Control {
	private final int broadcast, overlay;
	private long spoken, frames, cpu;

	public PeerSpeaker(String prefix) {
		broadcast = Configuration.getPid(prefix + ".broadcast");
		overlay = Configuration.getPid(prefix + ".overlay");
	}

	private static long cpu() {
		return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
	}

	@Override
	public boolean execute() {
		if (CommonState.getPhase() == CommonState.POST_SIMULATION) {
			long arcs = 0, neighbours = 0;
			for (int i = 0; i < Network.size(); i++) {
				BiSpray spray = (BiSpray) Network.get(i).getProtocol(overlay);
				HashSet<Node> both = new HashSet<>(spray.outview.uniqueSet());
				both.addAll(spray.inview.uniqueSet());
				arcs += spray.outview.size();
				neighbours += both.size();
			}
			System.out.printf("{\"broadcasts\": %d, \"deliveries\": %d, \"waited\": %d, \"frames\": %d, \"cpu\": %d,"
					+ " \"arcs\": %d, \"neighbours\": %d}%n", spoken, PeerBroadcast.deliveries, PeerBroadcast.waited,
					PeerBroadcast.frames - frames, cpu() - cpu, arcs, neighbours);
			return false;
		}
		if (spoken == 0) {
			frames = PeerBroadcast.frames;
			cpu = cpu();
		}
		Node node = Network.get((int) (7 * spoken++ % Network.size()));
		((PeerBroadcast) node.getProtocol(broadcast)).speak(node);
		return false;
	}
}
