//! Storage for what is under way.

/// Things by number, where numbers are used again: no allocation once there
/// have been as many as ever are at once.
pub(super) struct Slots<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Slots<T> {
    pub(super) fn new() -> Slots<T> {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = value;
                slot
            }
            None => {
                self.slots.push(value);
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }

    pub(super) fn take(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}
