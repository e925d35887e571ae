//! Things by number, whose numbers are used again.

/// A vector with holes.
pub(super) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab {
            things: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps a thing, and says under which number.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.things[number as usize] = Some(thing);
            return number;
        }
        self.things.push(Some(thing));
        self.things.len() as u32 - 1
    }

    /// The thing of a number.
    ///
    /// # Panics
    /// If there is none: numbers come from [`insert`](Self::insert).
    pub(super) fn get(&mut self, number: u32) -> &mut T {
        self.things[number as usize]
            .as_mut()
            .expect("the number is in use")
    }

    /// Takes a thing out; its number is free.
    pub(super) fn remove(&mut self, number: u32) -> T {
        let thing = self.things[number as usize].take();
        self.free.push(number);
        thing.expect("the number is in use")
    }
}
