/* Counts every packet that enters or leaves an interface, by pair of hosts, and by flow unless it is a probe.
 *
 * It only ever looks: each packet goes on to whatever else is attached. compile.sh makes the
 * object beside it, which is what the agent carries; whoever builds the agent needs no compiler for it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define TYPE(type, name) type *name
#define VALUE(number, name) int (*name)[number]

#define OUTWARD 0
#define INWARD 1
/* Where agents answer one another's probes. */
#define PROBE_PORT 7333
#define FRAGMENT_OFFSET 0x1fff
#define FRAGMENT_IS_FIRST 0

static void *(*const lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const update)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static __u64 (*const now_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const load_relative)(const void *skb, __u32 offset, void *to, __u32 len, __u32 start) =
	(void *)BPF_FUNC_skb_load_bytes_relative;

/* Addresses and ports stay in the order of the network. */
struct flow {
	__u32 source;
	__u32 destination;
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 direction;
	__u16 padding;
};

struct pair {
	__u32 source;
	__u32 destination;
	__u32 direction;
};

struct volume {
	__u64 bytes;
	__u64 packets;
	/* For how long it went on, but for pauses. */
	__u64 busy_ns;
	__u64 last_ns;
};

/* Longer than that between two packets is a pause. */
#define PAUSE_NS 5000000

/* Flows come and go: the one that was idle longest makes room. */
struct {
	VALUE(BPF_MAP_TYPE_LRU_HASH, type);
	TYPE(struct flow, key);
	TYPE(struct volume, value);
	VALUE(16384, max_entries);
} flows SEC(".maps");

/* Pairs stay. */
struct {
	VALUE(BPF_MAP_TYPE_HASH, type);
	TYPE(struct pair, key);
	TYPE(struct volume, value);
	VALUE(16384, max_entries);
} pairs SEC(".maps");

/* Packets of which nobody can tell whose they are. */
struct {
	VALUE(BPF_MAP_TYPE_ARRAY, type);
	TYPE(__u32, key);
	TYPE(__u64, value);
	VALUE(1, max_entries);
} unknown SEC(".maps");

INLINE void count_unknown(__u64 packets)
{
	__u32 zero = 0;
	__u64 *count = lookup(&unknown, &zero);

	if (count)
		__sync_fetch_and_add(count, packets);
}

/* Whether there was room. */
INLINE int add(void *map, const void *key, __u64 bytes, __u64 packets)
{
	struct volume none = {};
	struct volume *volume = lookup(map, key);

	if (!volume) {
		update(map, key, &none, BPF_NOEXIST);
		volume = lookup(map, key);
	}
	if (!volume)
		return 0;
	__u64 now = now_ns();
	__u64 gap = now - volume->last_ns;
	volume->last_ns = now;
	if (gap < PAUSE_NS)
		__sync_fetch_and_add(&volume->busy_ns, gap);
	__sync_fetch_and_add(&volume->bytes, bytes);
	__sync_fetch_and_add(&volume->packets, packets);
	return 1;
}

/* The length of all headers, which each segment of a large packet repeats on the wire. */
INLINE __u32 headers(struct __sk_buff *skb, const struct iphdr *ip)
{
	__u32 ip_bytes = ip->ihl * 4;
	__u8 offset = 0;

	if (ip->protocol == IPPROTO_UDP)
		return ETH_HLEN + ip_bytes + 8;
	if (load_relative(skb, ip_bytes + 12, &offset, sizeof(offset), BPF_HDR_START_NET) < 0)
		return ETH_HLEN + ip_bytes;
	return ETH_HLEN + ip_bytes + (offset >> 4) * 4;
}

/* Probes and their answers: hundreds of flows, of which the agent tells by itself. */
INLINE int is_probe(const struct iphdr *ip, const __u16 *ports)
{
	const __u16 port = __builtin_bswap16(PROBE_PORT);

	return ip->protocol == IPPROTO_UDP && (ports[0] == port || ports[1] == port);
}

INLINE int count(struct __sk_buff *skb, __u8 direction)
{
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	__u16 ports[2] = {};
	struct iphdr ip = {};

	if (skb->protocol != __builtin_bswap16(ETH_P_IP) ||
	    load_relative(skb, 0, &ip, sizeof(ip), BPF_HDR_START_NET) < 0) {
		count_unknown(segments);
		return TC_ACT_UNSPEC;
	}
	/* Only the first of several fragments has ports. */
	int has_ports = ip.protocol == IPPROTO_TCP || ip.protocol == IPPROTO_UDP;
	int is_first = (__builtin_bswap16(ip.frag_off) & FRAGMENT_OFFSET) == FRAGMENT_IS_FIRST;
	if (has_ports && is_first)
		load_relative(skb, ip.ihl * 4, ports, sizeof(ports), BPF_HDR_START_NET);

	struct flow flow = {
		.source = ip.saddr,
		.destination = ip.daddr,
		.source_port = ports[0],
		.destination_port = ports[1],
		.protocol = ip.protocol,
		.direction = direction,
	};
	struct pair pair = {
		.source = ip.saddr,
		.destination = ip.daddr,
		.direction = direction,
	};
	__u64 bytes = skb->len;
	if (segments > 1)
		bytes += (__u64)(segments - 1) * headers(skb, &ip);

	if (!is_probe(&ip, ports))
		add(&flows, &flow, bytes, segments);
	if (!add(&pairs, &pair, bytes, segments))
		count_unknown(segments);
	return TC_ACT_UNSPEC;
}

SEC("classifier") int reweave_outward(struct __sk_buff *skb)
{
	return count(skb, OUTWARD);
}

SEC("classifier") int reweave_inward(struct __sk_buff *skb)
{
	return count(skb, INWARD);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
