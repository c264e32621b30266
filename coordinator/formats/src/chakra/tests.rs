use reweave_common::error::error_chain;

use super::*;
use crate::mutations;

fn number(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn numbered(field: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(field << 3, &mut bytes);
    number(value, &mut bytes);
    bytes
}

fn delimited(field: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(field << 3 | 2, &mut bytes);
    number(content.len() as u64, &mut bytes);
    [bytes, content.to_vec()].concat()
}

fn attribute(name: &str, field: u64, value: u64) -> Vec<u8> {
    let content = [delimited(1, name.as_bytes()), numbered(field, value)].concat();
    delimited(10, &content)
}

fn node(id: u64, kind: u64, after: &[u64], rest: &[Vec<u8>]) -> Vec<u8> {
    let packed = after.iter().fold(Vec::new(), |mut bytes, &id| {
        number(id, &mut bytes);
        bytes
    });
    let head = [numbered(1, id), delimited(2, b"some"), numbered(3, kind)].concat();
    [head, delimited(5, &packed), rest.concat()].concat()
}

fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
    let metadata = delimited(1, b"0.0.4");
    let mut bytes = Vec::new();
    for message in [&[metadata], nodes].concat() {
        number(message.len() as u64, &mut bytes);
        bytes.extend(message);
    }
    bytes
}

fn computing(id: u64, us: u64, after: &[u64]) -> Vec<u8> {
    node(
        id,
        4,
        after,
        &[numbered(7, us), attribute("is_cpu_op", 27, 0)],
    )
}

fn collective(id: u64, kind: u64, bytes: u64, after: &[u64]) -> Vec<u8> {
    let attributes = [
        attribute("comm_type", 9, kind),
        attribute("comm_size", 9, bytes),
    ];
    node(id, 7, after, &attributes)
}

fn message(id: u64, kind: u64, [from, to]: [u64; 2], after: &[u64]) -> Vec<u8> {
    let attributes = [
        attribute("comm_src", 7, from),
        attribute("comm_dst", 7, to),
        attribute("comm_tag", 7, 5),
        attribute("comm_size", 13, 700),
    ];
    node(id, kind, after, &attributes)
}

fn two_ranks() -> [Vec<u8>; 2] {
    [
        trace(&[
            computing(1, 30, &[]),
            collective(2, 0, 4096, &[1]),
            message(3, 5, [0, 1], &[2]),
        ]),
        trace(&[
            collective(8, 0, 4096, &[7]),
            computing(7, 40, &[]),
            message(9, 6, [0, 1], &[8]),
        ]),
    ]
}

fn read_both(traces: &[Vec<u8>]) -> Result<Iteration, ChakraError> {
    let slices: Vec<_> = traces.iter().map(Vec::as_slice).collect();
    read(&slices)
}

#[test]
fn separate_rank_traces_are_merged() {
    let iteration = read_both(&two_ranks()).unwrap();
    let works: Vec<_> = iteration.tasks().map(|(_, task)| task.work).collect();
    let [zero, one] = [0, 1].map(Rank::from_index);
    let micros = Duration::from_micros;
    assert_eq!(
        works[0],
        TaskWork::Compute {
            rank: zero,
            time: micros(30)
        }
    );
    assert_eq!(
        works[1],
        TaskWork::Compute {
            rank: one,
            time: micros(40)
        }
    );
    let TaskWork::Collective {
        operation,
        group,
        bytes,
        ..
    } = works[2]
    else {
        panic!("{:?}", works[2]);
    };
    assert_eq!((operation, bytes), (Operation::AllReduce, Bytes::new(4096)));
    assert_eq!(iteration.group(group), [zero, one]);
    let bytes = Bytes::new(700);
    assert_eq!(
        works[3],
        TaskWork::Transfer {
            from: zero,
            to: one,
            bytes
        }
    );
    assert_eq!(iteration.waits(), [0, 0, 2, 2]);
}

#[test]
fn all_gather_size_sums_contributions() {
    let traces = [0, 1, 2].map(|_| trace(&[collective(1, 2, 100, &[])]));
    let iteration = read_both(&traces).unwrap();
    let (_, task) = iteration.tasks().next().unwrap();
    assert!(matches!(task.work, TaskWork::Collective { bytes, .. } if bytes == Bytes::new(300)));
}

#[test]
fn inconsistent_traces_are_refused() {
    let refused =
        |a: &[Vec<u8>], b: &[Vec<u8>]| error_chain(&read_both(&[trace(a), trace(b)]).unwrap_err());
    let one = collective(1, 0, 4096, &[]);
    assert_eq!(
        refused(std::slice::from_ref(&one), &[collective(1, 0, 100, &[])]),
        "the 1. collective of group \"\" is not the same everywhere: ranks 0 and 1 differ"
    );
    assert_eq!(
        refused(&[message(4, 5, [0, 1], &[])], &[]),
        "rank 0: the message of node 4 has no other end"
    );
    assert_eq!(
        refused(&[message(4, 6, [9, 0], &[])], &[]),
        "rank 0: node 4 names rank 9, and there are 2 traces"
    );
    assert_eq!(
        refused(&[computing(1, 1, &[6])], &[]),
        "rank 0: node 1 waits for node 6, which does not exist"
    );
    assert!(
        refused(&[computing(1, 1, &[2]), computing(2, 1, &[1])], &[]).contains("waits for itself")
    );
    assert!(refused(&[computing(1, 1, &[]), computing(1, 1, &[])], &[]).contains("the id 1"));
    assert_eq!(
        refused(&[], &[node(3, 77, &[], &[])]),
        "the trace of rank 1: node 3 is of the type 77, which is unknown"
    );
    assert_eq!(unreadable(&[]), ChakraError::Empty);
}

fn unreadable(trace: &[u8]) -> ChakraError {
    match read(&[trace]) {
        Err(ChakraError::Trace { rank: 0, source }) => *source,
        other => panic!("it was read: {other:?}"),
    }
}

/// The ranks meet in the other order: each waits for the other.
#[test]
fn cyclic_collectives_are_refused() {
    let named = |id, group: &str, after: &[u64]| {
        let name = [delimited(1, b"pg_name"), delimited(29, group.as_bytes())].concat();
        let attributes = [attribute("comm_size", 9, 1), delimited(10, &name)];
        node(id, 7, after, &attributes)
    };
    let a_first = trace(&[named(1, "a", &[]), named(2, "b", &[1])]);
    let b_first = trace(&[named(1, "b", &[]), named(2, "a", &[1])]);
    assert!(matches!(
        read_both(&[a_first, b_first]),
        Err(ChakraError::Iteration(IterationError::Cycle { .. }))
    ));
}

#[test]
fn lengths_beyond_end_are_refused() {
    for length in [u64::MAX, 1 << 40, 1000] {
        let mut bytes = trace(&[]);
        number(length, &mut bytes);
        assert!(matches!(
            unreadable(&bytes),
            ChakraError::Malformed(ProtobufError::Ends { .. })
        ));
    }
    let endless = [vec![0xff; 11], vec![0]].concat();
    assert_eq!(
        unreadable(&endless),
        ChakraError::Malformed(ProtobufError::LongNumber { at: 0 })
    );
}

#[test]
fn damaged_traces_are_read_or_refused() {
    let [good, other] = two_ranks();
    mutations::survives(&good, 20_000, |bytes| {
        let _ = read(&[bytes, &other]);
        let _ = read(&[bytes]);
    });
}
