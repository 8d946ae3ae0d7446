//! Doubly linked lists of pages, of which each page is in one at most.

/// No page, or no list.
const NONE: u32 = u32::MAX;

/// `N` lists of pages `0..nr_pages`.
#[derive(Debug)]
pub(crate) struct Lists<const N: usize> {
    links: Vec<Links>,
    ends: [Links; N],
    lens: [usize; N],
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
    list: u32,
}

const UNLINKED: Links = Links {
    before: NONE,
    after: NONE,
    list: NONE,
};

impl<const N: usize> Lists<N> {
    pub(crate) fn new(nr_pages: usize) -> Self {
        Self {
            links: vec![UNLINKED; nr_pages],
            ends: [UNLINKED; N],
            lens: [0; N],
        }
    }

    pub(crate) const fn len(&self, list: usize) -> usize {
        self.lens[list]
    }

    /// The list that a page is in.
    pub(crate) fn list_of(&self, page: u32) -> Option<usize> {
        let list = self.links[page as usize].list;
        (list != NONE).then_some(list as usize)
    }

    /// Puts a page that is in no list at the end of one.
    pub(crate) fn push(&mut self, list: usize, page: u32) {
        let last = self.ends[list].before;
        self.links[page as usize] = Links {
            before: last,
            after: NONE,
            list: list as u32,
        };
        self.after(list, last, page);
        self.ends[list].before = page;
        self.lens[list] += 1;
    }

    /// Takes the first page out of a list.
    pub(crate) fn pop(&mut self, list: usize) -> Option<u32> {
        let first = self.ends[list].after;
        (first != NONE).then(|| {
            self.remove(first);
            first
        })
    }

    /// Takes a page out of the list that it is in, if it is in one.
    pub(crate) fn remove(&mut self, page: u32) {
        let Links {
            before,
            after,
            list,
        } = self.links[page as usize];
        if list == NONE {
            return;
        }
        let list = list as usize;
        self.after(list, before, after);
        match after {
            NONE => self.ends[list].before = before,
            after => self.links[after as usize].before = before,
        }
        self.lens[list] -= 1;
        self.links[page as usize] = UNLINKED;
    }

    /// Takes a page out of its list, and puts it at the end of one.
    pub(crate) fn move_to(&mut self, list: usize, page: u32) {
        self.remove(page);
        self.push(list, page);
    }

    fn after(&mut self, list: usize, before: u32, page: u32) {
        match before {
            NONE => self.ends[list].after = page,
            before => self.links[before as usize].after = page,
        }
    }
}
