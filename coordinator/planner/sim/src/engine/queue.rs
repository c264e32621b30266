//! When each link sees its next flow end: a heap in which every link stands at most once.

const NOT_QUEUED: u32 = u32::MAX;
const HEAP_ARITY: usize = 4;
/// One of this many is few.
const REBUILD_DIVISOR: usize = 8;

/// Links ordered by tick. Those of one tick are in no order.
#[derive(Debug)]
pub(super) struct LinkQueue {
    heap: Vec<(u64, u32)>,
    /// Position of each link in the heap.
    places: Vec<u32>,
}

impl LinkQueue {
    pub(super) fn new(links: usize) -> Self {
        Self {
            heap: Vec::new(),
            places: vec![NOT_QUEUED; links],
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(tick, _)| tick)
    }

    /// Moves all links whose tick has come to `due`.
    pub(super) fn take_due(&mut self, now: u64, due: &mut Vec<u32>) {
        let first = due.len();
        let mut places = vec![0];
        // Nothing below one that is not due is due.
        while let Some(place) = places.pop() {
            if self.heap.get(place).is_some_and(|&(tick, _)| tick <= now) {
                due.push(self.heap[place].1);
                places.extend(place * HEAP_ARITY + 1..=place * HEAP_ARITY + HEAP_ARITY);
            }
        }
        if (due.len() - first) * REBUILD_DIVISOR < self.heap.len() {
            for &link in &due[first..] {
                self.remove(link);
            }
        } else {
            self.rebuild_without(&due[first..], now);
        }
    }

    /// Cheaper than one removal after the other when most are due.
    fn rebuild_without(&mut self, due: &[u32], now: u64) {
        for &link in due {
            self.places[link as usize] = NOT_QUEUED;
        }
        self.heap.retain(|&(tick, _)| tick > now);
        for (place, &(_, link)) in self.heap.iter().enumerate() {
            self.places[link as usize] = place as u32;
        }
        for place in (0..self.heap.len() / HEAP_ARITY + 1).rev() {
            if place < self.heap.len() {
                self.sink(place);
            }
        }
    }

    pub(super) fn set(&mut self, link: u32, tick: u64) {
        let place = self.places[link as usize];
        if place == NOT_QUEUED {
            self.heap.push((tick, link));
            self.rise(self.heap.len() - 1);
            return;
        }
        let place = place as usize;
        self.heap[place].0 = tick;
        self.resettle(place);
    }

    pub(super) fn remove(&mut self, link: u32) {
        let place = std::mem::replace(&mut self.places[link as usize], NOT_QUEUED);
        if place == NOT_QUEUED {
            return;
        }
        self.heap.swap_remove(place as usize);
        if (place as usize) < self.heap.len() {
            self.resettle(place as usize);
        }
    }

    fn resettle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / HEAP_ARITY;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * HEAP_ARITY + 1;
            let last = self.heap.len().min(first + HEAP_ARITY);
            let Some(least) = (first..last).min_by_key(|&child| self.heap[child].0) else {
                break;
            };
            if entry.0 <= self.heap[least].0 {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}
