//! When each link sees its next flow end: a heap in which every link stands at most once.

const NOWHERE: u32 = u32::MAX;
const CHILDREN: usize = 4;

/// Links ordered by tick, and by index where ticks are equal.
#[derive(Debug)]
pub(super) struct LinkQueue {
    heap: Vec<(u64, u32)>,
    /// Where each link stands in the heap.
    places: Vec<u32>,
}

impl LinkQueue {
    pub(super) fn new(links: usize) -> Self {
        Self {
            heap: Vec::new(),
            places: vec![NOWHERE; links],
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(tick, _)| tick)
    }

    /// Takes out the first link if its tick has come.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<u32> {
        let &(tick, link) = self.heap.first()?;
        (tick <= now).then(|| {
            self.remove(link);
            link
        })
    }

    pub(super) fn set(&mut self, link: u32, tick: u64) {
        let place = self.places[link as usize];
        if place == NOWHERE {
            self.heap.push((tick, link));
            self.rise(self.heap.len() - 1);
            return;
        }
        let place = place as usize;
        self.heap[place].0 = tick;
        self.resettle(place);
    }

    pub(super) fn remove(&mut self, link: u32) {
        let place = std::mem::replace(&mut self.places[link as usize], NOWHERE);
        if place == NOWHERE {
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
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= entry {
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
            let first = place * CHILDREN + 1;
            let last = self.heap.len().min(first + CHILDREN);
            let Some(least) = (first..last).min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if entry <= self.heap[least] {
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
