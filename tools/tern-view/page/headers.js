// Decodes the first bytes of a frame, field by field. A frame may end anywhere.

class Bytes {
	constructor(bytes) {
		this.bytes = bytes;
		this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
		this.at = 0;
		this.groups = [];
	}
	has(n) { return this.at + n <= this.bytes.length; }
	u8(at) { return this.view.getUint8(this.at + at); }
	u16(at) { return this.view.getUint16(this.at + at); }
	u24(at) { return this.u8(at) << 16 | this.u16(at + 1); }
	u32(at) { return this.view.getUint32(this.at + at); }
	u64(at) { return this.view.getBigUint64(this.at + at); }
	mac(at) { return [...this.bytes.subarray(this.at + at, this.at + at + 6)].map((b) => b.toString(16).padStart(2, "0")).join(":"); }
	ip4(at) { return [...this.bytes.subarray(this.at + at, this.at + at + 4)].join("."); }
	ip6(at) {
		const words = [];
		for (let k = 0; k < 16; k += 2) words.push(this.u16(at + k).toString(16));
		return words.join(":").replace(/(^|:)0(:0)+(:|$)/, "::");
	}
	// Adds a header of `size` bytes, if it is there.
	header(name, size, fields) {
		if (!this.has(size)) return false;
		this.groups.push({ name, fields: fields() });
		this.at += size;
		return true;
	}
}

const ECN_NAMES = ["not ECN capable", "ECT(1)", "ECT(0)", "congestion experienced"];

function ethernetFields(b) {
	let type = 0;
	const ok = b.header("Ethernet", 14, () => {
		type = b.u16(12);
		return [["destination", b.mac(0)], ["source", b.mac(6)], ["type", hex(type, 4)]];
	});
	if (ok && type === 0x8100) {
		b.header("VLAN tag", 4, () => {
			type = b.u16(2);
			return [["priority", b.u8(0) >> 5], ["VLAN", b.u16(0) & 0xfff], ["type", hex(type, 4)]];
		});
	}
	return type;
}

function networkFields(b, type) {
	if (type === 0x86dd) {
		return b.header("IPv6", 40, () => [["source", b.ip6(8)], ["destination", b.ip6(24)], ["traffic class", hex(b.u16(0) >> 4 & 0xff, 2)],
			["ECN", ECN_NAMES[b.u8(1) >> 4 & 3]], ["flow label", hex(b.u32(0) & 0xfffff, 5)], ["payload length", b.u16(4)], ["next header", b.u8(6)],
			["hop limit", b.u8(7)]]);
	}
	const size = b.has(20) ? (b.u8(0) & 15) * 4 : 20;
	return b.header("IPv4", size, () => [["source", b.ip4(12)], ["destination", b.ip4(16)], ["DSCP", b.u8(1) >> 2], ["ECN", ECN_NAMES[b.u8(1) & 3]],
		["total length", b.u16(2)], ["identification", hex(b.u16(4), 4)], ["flags", b.u8(6) & 0x40 ? "Don't Fragment" : "none"], ["TTL", b.u8(8)],
		["protocol", b.u8(9)], ["checksum", hex(b.u16(10), 4)]]);
}

const EXTENDED = {
	RETH: (b) => [["virtual address", hex(b.u64(0))], ["rkey", hex(b.u32(8), 8)], ["DMA length", `${count(b.u32(12))} B`]],
	AtomicETH: (b) => [["virtual address", hex(b.u64(0))], ["rkey", hex(b.u32(8), 8)], ["swap or add", hex(b.u64(12))], ["compare", hex(b.u64(20))]],
	AETH: (b) => [["syndrome", `${hex(b.u8(0), 2)}  ${syndromeText(b.u8(0))}`], ["MSN", `${hex(b.u24(1))}`]],
	AtomicAckETH: (b) => [["original value", hex(b.u64(0))]],
	ImmDt: (b) => [["immediate data", hex(b.u32(0), 8)]],
	IETH: (b) => [["rkey to invalidate", hex(b.u32(0), 8)]],
	DETH: (b) => [["Q_Key", hex(b.u32(0), 8)], ["source QP", hex(b.u24(5))]],
	XRCETH: (b) => [["SRQ", hex(b.u24(1))]],
	FETH: (b) => [["placement", ["none", "global", "persistent", "global and persistent"][b.u8(3) & 3]],
		["selectivity", ["range", "region"][b.u8(3) >> 4 & 3] || "reserved"]],
};

function syndromeText(code) {
	if (code >> 5 === 0) return (code & 31) === 31 ? "ACK, no credits" : `ACK, credit code ${code & 31}`;
	return META.syndromes[code];
}

function bthFields(b, op) {
	return [["opcode", `${hex(b.u8(0), 2)}  ${op ? op.name : "unknown"}`], ["destination QP", hex(b.u24(5))], ["PSN", `${hex(b.u24(9))}  (${b.u24(9)})`],
		["AckReq", b.u8(8) >> 7], ["solicited", b.u8(1) >> 7], ["MigReq", b.u8(1) >> 6 & 1], ["pad", `${b.u8(1) >> 4 & 3} B`], ["version", b.u8(1) & 15],
		["P_Key", hex(b.u16(2), 4)], ["FECN", b.u8(4) >> 7], ["BECN", b.u8(4) >> 6 & 1]];
}

// [{name, fields: [[name, value]]}] of a frame's first bytes.
function decodeHead(bytes, op) {
	const b = new Bytes(bytes);
	const type = ethernetFields(b);
	if (!networkFields(b, type)) return b.groups;
	const udp = () => [["source port", b.u16(0)], ["destination port", b.u16(2)], ["length", b.u16(4)], ["checksum", hex(b.u16(6), 4)]];
	if (!b.header("UDP", 8, udp)) return b.groups;
	if (!b.header("BTH", 12, () => bthFields(b, op)) || !op) return b.groups;
	for (const name of op.headers) {
		if (!b.header(name, META.sizes[name], () => EXTENDED[name](b))) break;
	}
	return b.groups;
}

// The address and length that a request names, or null.
function accessOf(bytes, op) {
	const groups = decodeHead(bytes, op);
	const eth = groups.find((g) => g.name === "RETH" || g.name === "AtomicETH");
	if (!eth) return null;
	const value = Object.fromEntries(eth.fields);
	const length = eth.name === "RETH" ? Number(value["DMA length"].replace(/[^0-9]/g, "")) : 8;
	return { va: BigInt(value["virtual address"]), key: value.rkey, length };
}
