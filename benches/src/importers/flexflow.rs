//! A FlexFlow task graph: tables of FlatBuffers.

const FORWARD_TASK: i16 = 0;
const TRANSFER_TASK: i16 = 2;
const GPU_DEVICE: i16 = 0;
const NETWORK_DEVICE: i16 = 13;
/// Bytes per millisecond: 100 Gb/s.
const BANDWIDTH_BYTES_PER_MS: f32 = 12.5e6;

/// Returns servers on one switch. In turn, each computes and then sends to the next.
pub(super) fn graph(servers: usize, tasks: usize) -> Vec<u8> {
    let mut file = File(vec![0; 4]);
    let head = [1, servers as u32, 1].map(u32::to_le_bytes).concat();
    let rates = [0.0, 0.0, BANDWIDTH_BYTES_PER_MS]
        .map(f32::to_le_bytes)
        .concat();
    // Connections, operators, tasks and devices.
    let lists = vec![0; 4 * 4];
    let root = file.table(&[head, rates, lists].concat(), &[4; 10]);
    file.point(0, root);
    let [connections, tasks_list, devices] = [6, 8, 9].map(|field| root + 4 + 4 * field);
    file.tables(connections, servers, |file, nth| {
        let ends = [nth as u32, servers as u32, 1];
        file.table(&ends.map(u32::to_le_bytes).concat(), &[4; 3])
    });
    file.tables(tasks_list, tasks, |file, nth| {
        file.task(nth, servers, tasks)
    });
    file.tables(devices, 2 * servers, |file, nth| file.device(nth, servers));
    file.0
}

struct File(Vec<u8>);

impl File {
    /// Writes the offsets of the fields, and the table. Returns its position.
    fn table(&mut self, content: &[u8], sizes: &[u16]) -> usize {
        let description_bytes = 4 + 2 * sizes.len() as u16;
        let mut words = vec![description_bytes, 4 + content.len() as u16];
        let mut offset = 4;
        for size in sizes {
            words.push(offset);
            offset += size;
        }
        self.0.extend(words.into_iter().flat_map(u16::to_le_bytes));
        let at = self.0.len();
        self.0.extend(i32::from(description_bytes).to_le_bytes());
        self.0.extend(content);
        at
    }

    fn point(&mut self, at: usize, target: usize) {
        self.0[at..at + 4].copy_from_slice(&((target - at) as u32).to_le_bytes());
    }

    /// Writes a list of tables to which `pointer` points.
    fn tables(&mut self, pointer: usize, count: usize, table: impl Fn(&mut Self, usize) -> usize) {
        let list = self.0.len();
        self.point(pointer, list);
        self.0.extend((count as u32).to_le_bytes());
        self.0.resize(self.0.len() + 4 * count, 0);
        for nth in 0..count {
            let at = table(self, nth);
            self.point(list + 4 + 4 * nth, at);
        }
    }

    /// Writes a task. Even ones compute, odd ones send; each is followed by the one this number of servers later.
    fn task(&mut self, nth: usize, servers: usize, tasks: usize) -> usize {
        let place = nth % (2 * servers);
        let kind = [FORWARD_TASK, TRANSFER_TASK][place % 2];
        let device = match kind {
            FORWARD_TASK => place / 2,
            _ => servers + place / 2,
        };
        let next = nth + [1, 2 * servers - 1][place % 2];
        let content = [
            &kind.to_le_bytes()[..],
            &(nth as u64).to_le_bytes(),
            &(device as u64).to_le_bytes(),
            &0.1f32.to_le_bytes(),
            &(1u64 << 16).to_le_bytes(),
            &[0; 4],
        ]
        .concat();
        let table = self.table(&content, &[2, 8, 8, 4, 8, 4]);
        let list = self.0.len();
        self.point(table + 4 + 30, list);
        let count = u32::from(next < tasks);
        self.0.extend(count.to_le_bytes());
        if next < tasks {
            self.0.extend((next as u64).to_le_bytes());
        }
        table
    }

    /// Writes a device: first the GPUs of the servers, then the links from each server to the next.
    fn device(&mut self, nth: usize, servers: usize) -> usize {
        let server = nth % servers;
        let (kind, property) = if nth < servers {
            (GPU_DEVICE, 0)
        } else {
            // The switch is one more node.
            (
                NETWORK_DEVICE,
                server * (servers + 1) + (server + 1) % servers,
            )
        };
        let content = [
            &kind.to_le_bytes()[..],
            &(nth as u64).to_le_bytes(),
            &(server as u64).to_le_bytes(),
            &(property as u64).to_le_bytes(),
        ]
        .concat();
        self.table(&content, &[2, 8, 8, 8])
    }
}
