"""PC-broadcast over Spray in PeerSim (Montresor and Jelasity), from class files that the user has.

    ANTECAST_PEERSIM=CLASSPATH python -m bench.peers.peersim [PROCESSES]...

The class path names the compiled classes of peersim-pcbroadcast (Nédelec), which implements the paper's protocol,
and the archives that it needs: PeerSim, djep, jep and commons-collections4. Two classes of ours are beside this
file: they start the broadcasts, mend the receive path and count.

Both simulators do the same work: an overlay that has settled, one exchange per minute and process, frames that
take a second, a broadcast every ten seconds for ten minutes, and a minute for the last ones to arrive. Ours is
given as many arcs per process as PeerSim's overlay has. Results are compared as well as the cost: all messages
reach all processes, over about as many neighbours, after about as long. CPU time is that of these eleven minutes,
without starting, compiling and building the overlay; for Java it includes the garbage collector.
"""
