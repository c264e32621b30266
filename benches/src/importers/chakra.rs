//! Chakra execution traces: a sequence of protocol buffers messages.

/// Returns a trace per rank, with this number of nodes in sequence: seven that compute, then an all-reduce.
pub(super) fn traces(ranks: usize, nodes: usize) -> Vec<Vec<u8>> {
    (0..ranks).map(|_| trace(nodes)).collect()
}

fn trace(nodes: usize) -> Vec<u8> {
    let mut trace = Vec::new();
    add_message(&mut trace, &text(1, "0.0.4"));
    for id in 0..nodes as u64 {
        add_message(&mut trace, &node(id));
    }
    trace
}

fn add_message(trace: &mut Vec<u8>, message: &[u8]) {
    trace.extend(varint(message.len() as u64));
    trace.extend(message);
}

fn node(id: u64) -> Vec<u8> {
    let is_collective = id % 8 == 7;
    let kind = if is_collective { 7 } else { 4 };
    let mut node = [number(1, id), text(2, "aten::mm"), number(3, kind)].concat();
    if id > 0 {
        node.extend(number(5, id - 1));
    }
    node.extend(number(7, 100));
    node.extend(attribute("is_cpu_op", 27, 0));
    if is_collective {
        node.extend(attribute("comm_type", 9, 0));
        node.extend(attribute("comm_size", 9, 1 << 20));
    }
    node
}

fn attribute(name: &str, field: u64, value: u64) -> Vec<u8> {
    bytes(10, &[text(1, name), number(field, value)].concat())
}

fn text(field: u64, text: &str) -> Vec<u8> {
    bytes(field, text.as_bytes())
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let head = [varint(field << 3 | 2), varint(content.len() as u64)].concat();
    [&head, content].concat()
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
