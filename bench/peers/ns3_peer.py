"""The work in ns-3 (the ns-3 project), from its Python package.

The exchange itself is C++, as ns-3's users write it, compiled as the adapter starts. Two nodes that ever meet have
a point-to-point link, fast enough that its rate does not matter; it is used while they are in contact. A frame is
a packet of ns-3 that carries the number of its message.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from bench.peers.apart import serve
from bench.peers.work import MINUTE, Outcome, Work, make_work

EXCHANGE = """
#include <map>
#include <set>
#include <vector>
#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

namespace peer {
using namespace ns3;

struct Exchange {
    struct Arrival { uint32_t message, node; double at; };

    NodeContainer nodes;
    std::vector<std::set<uint32_t>> held;
    std::vector<std::map<uint32_t, Ptr<NetDevice>>> near;  // whom a node is in contact with, and by which device
    std::map<std::pair<uint32_t, uint32_t>, NetDeviceContainer> links;
    std::vector<Arrival> arrivals;
    PointToPointHelper wire;

    explicit Exchange(uint32_t count) : held(count), near(count) {
        nodes.Create(count);
        wire.SetDeviceAttribute("DataRate", StringValue("1000Gbps"));
        wire.SetChannelAttribute("Delay", StringValue("DELAYms"));
        wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
    }

    void Contact(uint32_t a, uint32_t b, double start, double end) {
        if (!links.count({a, b})) {
            auto both = links[{a, b}] = wire.Install(nodes.Get(a), nodes.Get(b));
            Listen(both.Get(0), a, b);
            Listen(both.Get(1), b, a);
        }
        Simulator::Schedule(Seconds(start), &Exchange::Meet, this, a, b);
        Simulator::Schedule(Seconds(end), &Exchange::Part, this, a, b);
    }

    void Broadcast(uint32_t message, uint32_t node, double at) {
        Simulator::Schedule(Seconds(at), &Exchange::Take, this, message, node);
    }

    void Listen(Ptr<NetDevice> device, uint32_t node, uint32_t peer) {
        device->SetReceiveCallback(
            [this, node, peer](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&) {
                uint32_t message;
                packet->CopyData(reinterpret_cast<uint8_t*>(&message), sizeof message);
                if (near[node].count(peer) && !held[node].count(message)) {
                    arrivals.push_back({message, node, Simulator::Now().GetSeconds()});
                    Take(message, node);
                }
                return true;
            });
    }

    void Meet(uint32_t a, uint32_t b) {
        near[a][b] = links[{a, b}].Get(0);
        near[b][a] = links[{a, b}].Get(1);
        Offer(a, b);
        Offer(b, a);
    }

    void Part(uint32_t a, uint32_t b) {
        near[a].erase(b);
        near[b].erase(a);
    }

    void Offer(uint32_t from, uint32_t to) {
        for (auto message : held[from])
            if (!held[to].count(message)) Send(message, from, to);
    }

    void Take(uint32_t message, uint32_t node) {
        held[node].insert(message);
        for (auto& [peer, device] : near[node])
            if (!held[peer].count(message)) Send(message, node, peer);
    }

    void Send(uint32_t message, uint32_t from, uint32_t to) {
        auto device = near[from].at(to);
        auto bytes = reinterpret_cast<const uint8_t*>(&message);
        device->Send(Create<Packet>(bytes, sizeof message), device->GetBroadcast(), 0x0800);
    }

    void Run(double end) {
        Simulator::Stop(Seconds(end));
        Simulator::Run();
        Simulator::Destroy();
    }
};
}
"""
DELAY = 2
"""Milliseconds that a frame takes."""


def ns3_epidemic(work: Work) -> Outcome:
    importlib.import_module("ns").ns  # noqa: B018 - loads the libraries of ns-3
    cppyy: Any = importlib.import_module("cppyy")
    cppyy.cppdef(EXCHANGE.replace("DELAY", str(DELAY)))
    _exchange(cppyy.gbl.peer.Exchange, make_work(nodes=4, contacts=8, messages=2))  # compiles what is called
    return _exchange(cppyy.gbl.peer.Exchange, work)


def _exchange(exchange_of: Any, work: Work) -> Outcome:
    begun = time.process_time()
    exchange = exchange_of(work.nodes)
    for each in work.contacts:
        exchange.Contact(each.a, each.b, float(each.start), float(each.end))
    for message, sent in enumerate(work.broadcasts):
        exchange.Broadcast(message, sent.node, float(sent.t))
    exchange.Run(float(MINUTE * work.minutes))
    arrivals = {(each.message, each.node): each.at for each in exchange.arrivals}
    return Outcome(arrivals, time.process_time() - begun)


if __name__ == "__main__":
    serve(ns3_epidemic)
