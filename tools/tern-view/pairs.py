# SPDX-License-Identifier: GPL-2.0-or-later
"""Joins flows to pairs: the two directions between two QPs, as far as the capture shows that
they belong together."""
from roce.flows import convention
from roce.headers import CLASS_NAMES, UC, UD, address_text


class Pair:
    """A pair of QPs, ends A and B. A QP number is None where the capture does not show it."""
    def __init__(self, cls, a, b):
        self.cls, self.a, self.b = cls, a, b  # a, b: (address, QP number)

    def text(self):
        def end(address, qp):
            return {
                "address": address if isinstance(address, str) else address_text(address), "qp": qp
            }

        return {"class": CLASS_NAMES.get(self.cls, "?"), "a": end(*self.a), "b": end(*self.b)}


def join(flows):
    """Returns (pairs, [(index of the pair, whether it goes from B to A) of each flow], {index of
    a flow: index of its reverse})."""
    pairs, place, back = [], [None] * len(flows), {}
    by_link = {id(f.link): i for i, f in enumerate(flows) if f.link is not None}
    reverse = dict(_unreliable(flows))
    to = {}
    for i, flow in enumerate(flows):
        if place[i] is not None or (flow.link is None and flow.key[2] != UD):
            continue
        src, dst, cls, qp = flow.key[:4]
        peer = by_link.get(
            id(flow.link.peer
               )) if flow.link is not None and flow.link.peer is not None else reverse.get(i)
        source = flow.key[5] if cls == UD and len(flow.key) > 5 else None
        if peer is not None and place[peer] is not None:
            peer = None
        if peer is not None:
            source = flows[peer].key[3]
            back[i], back[peer] = peer, i
            if peer != i:
                place[peer] = (len(pairs), True)
        place[i] = (len(pairs), False)
        to.setdefault((src, dst, qp), place[i])
        if peer is not None:
            to.setdefault((dst, src, source), (len(pairs), True))
        pairs.append(Pair(cls, (src, source), (dst, qp)))
    # A CNP names the QP that it notifies, whatever that QP's class. A damaged packet may name any
    # QP.
    for i, flow in enumerate(flows):
        if place[i] is None:
            src, dst, cls, qp = flow.key[:4]
            place[i] = to.get((src, dst, qp))
            if place[i] is None:
                place[i] = to[(src, dst, qp)] = (len(pairs), False)
                pairs.append(Pair(cls, (src, None), (dst, qp)))
    return pairs, place, back


def _unreliable(flows):
    """Yields (flow, reverse flow) of datagrams between two QPs, and of UC by the convention of
    source ports."""
    datagrams, ports = {}, {}
    for i, flow in enumerate(flows):
        src, dst, cls, qp, port = flow.key[:5]
        if cls == UD and len(flow.key) > 5:
            datagrams[src, dst, qp, flow.key[5]] = i
        elif cls == UC and flow.link is not None:
            ports.setdefault((src, dst, port), []).append(i)
    for (src, dst, qp, source), i in datagrams.items():
        peer = datagrams.get((dst, src, source, qp))
        if peer is not None and peer != i:
            yield i, peer
    for (src, dst, port), here in ports.items():
        for i in here:
            for peer in ports.get((dst, src, port), ())[:64]:
                if peer != i and port == convention(flows[i].key[3], flows[peer].key[3]):
                    yield i, peer
