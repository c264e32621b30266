use std::time::Duration;

use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{IterationError, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};

use super::flatbuf::FlatbufError;
use super::*;
use crate::mutations;

/// A field as it is to be written; each list comes after the table that names it.
enum Field {
    Left,
    I16(i16),
    U32(u32),
    U64(u64),
    F32(f32),
    U32s(Vec<u32>),
    I32s(Vec<i32>),
    U64s(Vec<u64>),
    Tables(Vec<Vec<Field>>),
}

use Field::*;

fn flatbuffer(root: &[Field]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let root = table(&mut bytes, root);
    patch(&mut bytes, 0, root);
    bytes
}

fn patch(bytes: &mut [u8], at: usize, target: usize) {
    bytes[at..at + 4].copy_from_slice(&((target - at) as u32).to_le_bytes());
}

/// Writes the description, the table, and then all that it points to. Returns where the table is.
fn table(bytes: &mut Vec<u8>, fields: &[Field]) -> usize {
    let description = bytes.len();
    let mut offsets = Vec::new();
    let mut content = Vec::new();
    for field in fields {
        offsets.push(if matches!(field, Left) {
            0
        } else {
            4 + content.len() as u16
        });
        content.extend(inline(field));
    }
    let described = 4 + 2 * fields.len() as u16;
    let header = [described, 4 + content.len() as u16];
    for word in header.iter().chain(&offsets) {
        bytes.extend(word.to_le_bytes());
    }
    let at = bytes.len();
    bytes.extend(((at - description) as i32).to_le_bytes());
    bytes.extend(content);
    for (field, offset) in fields.iter().zip(offsets) {
        list(bytes, at + usize::from(offset), field);
    }
    at
}

fn inline(field: &Field) -> Vec<u8> {
    match field {
        Left => vec![],
        I16(value) => value.to_le_bytes().to_vec(),
        U32(value) => value.to_le_bytes().to_vec(),
        U64(value) => value.to_le_bytes().to_vec(),
        F32(value) => value.to_le_bytes().to_vec(),
        U32s(_) | I32s(_) | U64s(_) | Tables(_) => vec![0; 4],
    }
}

fn list(bytes: &mut Vec<u8>, pointer: usize, field: &Field) {
    let elements: Vec<Vec<u8>> = match field {
        U32s(values) => values.iter().map(|v| v.to_le_bytes().to_vec()).collect(),
        I32s(values) => values.iter().map(|v| v.to_le_bytes().to_vec()).collect(),
        U64s(values) => values.iter().map(|v| v.to_le_bytes().to_vec()).collect(),
        Tables(tables) => tables.iter().map(|_| vec![0; 4]).collect(),
        _ => return,
    };
    let at = bytes.len();
    patch(bytes, pointer, at);
    bytes.extend((elements.len() as u32).to_le_bytes());
    bytes.extend(elements.concat());
    if let Tables(tables) = field {
        for (nth, fields) in tables.iter().enumerate() {
            let target = table(bytes, fields);
            patch(bytes, at + 4 + 4 * nth, target);
        }
    }
}

fn task(kind: i16, id: u64, device: u64, runtime_ms: f32, bytes: u64, next: &[u64]) -> Vec<Field> {
    let next = U64s(next.to_vec());
    vec![
        I16(kind),
        U64(id),
        U64(device),
        F32(runtime_ms),
        U64(bytes),
        next,
    ]
}

/// Three servers in a ring: two forward tasks, a transfer between them, an all-reduce over all.
fn tasks() -> Vec<Vec<Field>> {
    vec![
        task(0, 70, 900, 1.5, 0, &[72]),
        task(0, 71, 901, 2.0, 0, &[73]),
        task(5, 72, 903, 0.1, 4096, &[71]),
        task(6, 73, 0, 0.25, 3000, &[0, 1, 2]),
    ]
}

fn devices() -> Vec<Vec<Field>> {
    let gpu = |node| vec![I16(0), U64(900 + node), U64(node), U64(node)];
    let cable = vec![I16(14), U64(903), U64(u64::MAX), U64(1)];
    (0..3).map(gpu).chain([cable]).collect()
}

fn graph_of(tasks: Vec<Vec<Field>>, devices: Vec<Vec<Field>>) -> Vec<u8> {
    graph_with(tasks, devices, &[1], vec![route(&[0, 2, 1])])
}

fn route(hops: &[u32]) -> Vec<Field> {
    let way = vec![U32s(hops.to_vec()), F32(1.0)];
    vec![U32(0), U32(1), Tables(vec![way])]
}

fn graph_with(
    tasks: Vec<Vec<Field>>,
    devices: Vec<Vec<Field>>,
    jumps: &[i32],
    routes: Vec<Vec<Field>>,
) -> Vec<u8> {
    let joined = [[1, 0], [2, 1], [0, 2]];
    let joined = joined.map(|[a, b]| vec![U32(a), U32(b), U32(1)]).into();
    let rings = vec![
        U64(3),
        Tables(vec![vec![I32s(jumps.to_vec())], vec![I32s(vec![-1])]]),
    ];
    flatbuffer(&[
        U32(1),
        U32(3),
        Left,
        Left,
        Left,
        F32(1_250_000.0),
        Tables(joined),
        Left,
        Tables(tasks),
        Tables(devices),
        Tables(routes),
        Tables(vec![rings]),
    ])
}

fn refusal(tasks: Vec<Vec<Field>>) -> TaskGraphError {
    TaskGraph::decode(&graph_of(tasks, devices())).unwrap_err()
}

#[test]
fn task_graph_is_read_with_network() {
    let graph = TaskGraph::decode(&graph_of(tasks(), devices())).unwrap();
    let works: Vec<_> = graph.iteration.tasks().map(|(_, task)| task.work).collect();
    let [zero, one, two] = [0, 1, 2].map(Rank::from_index);
    let compute = |rank, us| TaskWork::Compute {
        rank,
        time: Duration::from_micros(us),
    };
    assert_eq!(works[..2], [compute(zero, 1500), compute(one, 2000)]);
    let transfer = TaskWork::Transfer {
        from: zero,
        to: one,
        bytes: Bytes::new(4096),
    };
    assert_eq!(works[2], transfer);
    let TaskWork::Collective {
        operation,
        group,
        bytes,
        local,
    } = works[3]
    else {
        panic!("{:?}", works[3]);
    };
    assert_eq!((operation, bytes), (Operation::AllReduce, Bytes::new(3000)));
    assert_eq!(local, Duration::from_micros(250));
    assert_eq!(graph.iteration.group(group), [zero, one, two]);

    assert_eq!(graph.link_rate, Rate::from_gbps(10.0).unwrap());
    let fabric = graph.fabric(graph.link_rate).unwrap();
    assert!(graph.is_direct() && fabric.links().len() == 3 && fabric.nodes().len() == 3);
    let ways = &graph.carriage.ways[&(NodeId::from_index(0), NodeId::from_index(1))];
    assert_eq!(ways[0].nodes, [0, 2, 1].map(NodeId::from_index));
    let rings = &graph.carriage.rings[&vec![zero, one, two]];
    let orders: Vec<_> = rings.iter().map(|ring| ring.members.clone()).collect();
    assert_eq!(orders, [vec![zero, one, two], vec![zero, two, one]]);
}

#[test]
fn inconsistent_task_graph_is_refused() {
    let mut unknown = tasks();
    unknown[0] = task(0, 70, 900, 1.5, 0, &[99]);
    assert_eq!(
        refusal(unknown),
        TaskGraphError::UnknownTask { id: 70, next: 99 }
    );
    let mut cyclic = tasks();
    cyclic[1] = task(0, 71, 901, 2.0, 0, &[70]);
    assert!(matches!(
        refusal(cyclic),
        TaskGraphError::Iteration(IterationError::Cycle { .. })
    ));
    let mut twice = tasks();
    twice[1] = task(0, 70, 901, 2.0, 0, &[]);
    assert_eq!(refusal(twice).to_string(), "two tasks have the id 70");
    let mut unfit = tasks();
    unfit[0] = task(0, 70, 903, 1.5, 0, &[]);
    assert!(matches!(
        refusal(unfit),
        TaskGraphError::UnfitDevice { id: 70, .. }
    ));
    for runtime_ms in [f32::NAN, -1.0, f32::INFINITY] {
        let mut timeless = tasks();
        timeless[0] = task(0, 70, 900, runtime_ms, 0, &[]);
        assert!(matches!(
            refusal(timeless),
            TaskGraphError::BadRuntime { id: 70, .. }
        ));
    }
    let mut strange = tasks();
    strange[0] = task(9, 70, 900, 1.0, 0, &[]);
    assert!(matches!(
        refusal(strange),
        TaskGraphError::UnknownTaskType { id: 70, kind: 9 }
    ));
    let mut outside = tasks();
    outside[3] = task(6, 73, 0, 0.25, 3000, &[0, 1, 8]);
    assert_eq!(
        refusal(outside).to_string(),
        "an all-reduce names node 8, and there are 3"
    );
}

#[test]
fn ring_missing_member_is_refused() {
    for jumps in [&[][..], &[3], &[1, 1, 1]] {
        let graph = graph_with(tasks(), devices(), jumps, vec![]);
        let refused = TaskGraph::decode(&graph).unwrap_err();
        assert_eq!(refused, TaskGraphError::BadRing { size: 3 });
    }
}

#[test]
fn overlong_flatbuffer_lists_are_refused() {
    let mut bytes = graph_of(tasks(), devices());
    let next = bytes
        .windows(12)
        .rposition(|w| w == [1, 0, 0, 0, 73, 0, 0, 0, 0, 0, 0, 0]);
    let at = next.unwrap();
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let refused = TaskGraph::decode(&bytes).unwrap_err();
    let too_long = FlatbufError::TooLong {
        at,
        count: u32::MAX,
    };
    assert_eq!(refused, TaskGraphError::Malformed(too_long));
}

/// A few kilobytes of pointers to one table with a long list would be read many times over.
#[test]
fn shared_flatbuffer_tables_are_bounded() {
    let long: Vec<u32> = [0, 1].repeat(200);
    let routes = (0..400).map(|_| vec![]).chain([route(&long)]).collect();
    let mut bytes = graph_with(tasks(), devices(), &[1], routes);
    let pointers = bytes.windows(4).position(|w| w == 401u32.to_le_bytes());
    let first = pointers.unwrap() + 4;
    let last = first + 400 * 4;
    let offset = u32::from_le_bytes(bytes[last..last + 4].try_into().unwrap()) as usize;
    for nth in 0..400 {
        patch(&mut bytes, first + nth * 4, last + offset);
    }
    let refused = TaskGraph::decode(&bytes).unwrap_err();
    assert_eq!(refused, TaskGraphError::Malformed(FlatbufError::Reused));
}

#[test]
fn damaged_graphs_are_read_or_refused() {
    let good = graph_of(tasks(), devices());
    mutations::survives(&good, 20_000, |bytes| {
        let _ = TaskGraph::decode(bytes);
    });
}

const PROFILE: &str = r#"{"batch_size": 64, "ngpus": 4, "measurements": [
    {"name": "Dense_8_8", "pc_str": "2-1-4", "fw_time": 0.5, "bw_time": 1.25, "mem_req": 4096},
    {"name": "Dense_8_8", "pc_str": "2-1-1", "fw_time": 1.5, "bw_time": 4.25, "mem_req": 9000}]}"#;

#[test]
fn profile_gives_timings_by_split() {
    let timings = read_profile(PROFILE, 64).unwrap();
    let splits: Vec<_> = timings.splits("Dense_8_8").collect();
    assert_eq!(
        splits.iter().map(|(split, _)| *split).collect::<Vec<_>>(),
        [1, 4]
    );
    assert_eq!(splits[1].1.backward, Duration::from_micros(1250));
    assert_eq!(timings.get("Dense_8_8", 2), None);
}

/// Parts of another batch are as large when it is split as much more often as it is larger.
#[test]
fn profile_scales_to_other_batches() {
    let splits = |batch: u64| {
        let timings = read_profile(PROFILE, batch)?;
        let splits = timings.splits("Dense_8_8").map(|it| it.0);
        Ok::<_, ProfileError>(splits.collect::<Vec<_>>())
    };
    assert_eq!(splits(512).unwrap(), [8, 32]);
    assert_eq!(splits(16).unwrap(), [1]);
    let refused = splits(100).unwrap_err().to_string();
    assert!(refused.contains("a batch of 64: one of 100 has no parts"));
}

#[test]
fn invalid_profile_is_refused() {
    let refused = |from: &str, to: &str| {
        read_profile(&PROFILE.replace(from, to), 64)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("2-1-1", "2-1-4"),
        "Dense_8_8 2-1-4: it was measured twice"
    );
    assert_eq!(
        refused("2-1-4", "2-2-4"),
        "Dense_8_8 2-2-4: something else than its batch is split"
    );
    assert!(refused("2-1-4", "2-4").contains("not written as"));
    assert!(refused("0.5", "-0.5").contains("its time is invalid"));
    assert_eq!(refused("[", ""), "not a profile of operators");
}

#[test]
fn damaged_profiles_are_read_or_refused() {
    mutations::survives(PROFILE.as_bytes(), 5_000, |bytes| {
        let _ = read_profile(&String::from_utf8_lossy(bytes), 64);
    });
}
