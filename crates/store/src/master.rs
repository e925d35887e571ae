//! The master page: where everything else of a store begins.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 64 | 8 | numbers below it may have been given to transactions, tables, commits |
//! | 72 | 4 | segment of undo |
//! | 76 | 4 | root of the catalogue |
//! | 80 | 4 | segment of its leaves |
//! | 84 | 4 | segment of its branches |
//! | 88 | 4 | undo slots |
//! | 92 | 4 each | their header pages |

use crate::access::{MiniTransaction, Pages, PagesError};
use crate::attempt::{in_mini, until_loaded};
use crate::ids::{PageId, SegmentId};
use crate::page::Op;
use crate::page::header::{self, PageKind, get_u32, get_u64};
use crate::tree::Tree;

const NUMBERS_AT: u16 = 64;
const SEGMENTS_AT: u16 = 72;
const SLOTS_AT: u16 = 88;

/// Owner that the catalogue's pages name, and descriptions of tables. Tables and indexes have numbers from
/// [`FIRST_NUMBER`] on.
pub(crate) const CATALOGUE_OWNER: u64 = 1;
/// The first number that is given. 0 is that of versions older than all.
pub(crate) const FIRST_NUMBER: u64 = 2;

/// Undo slots that a store can have.
pub(crate) const fn slots_max(page_bytes: usize) -> usize {
    (page_bytes - SLOTS_AT as usize - 4) / 4
}

/// Where the master page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Master {
    pub(crate) page: PageId,
}

/// What the master page says.
#[derive(Clone, Debug)]
pub(crate) struct MasterRecord {
    /// All numbers that were given are below.
    pub(crate) numbers: u64,
    pub(crate) undo: SegmentId,
    pub(crate) catalogue: Tree,
    /// Header pages of the undo slots.
    pub(crate) slots: Vec<PageId>,
}

impl Master {
    /// Makes the master page and the catalogue's root, as the first two pages
    /// of their segments, in one mini-transaction.
    pub(crate) fn create<P: Pages>(
        pages: &P,
        undo: SegmentId,
        leaves: SegmentId,
        branches: SegmentId,
    ) -> Result<Master, PagesError> {
        let mut mini = pages.begin(&[branches], 2)?;
        let page = mini.allocate(branches, None);
        mini.apply(
            page,
            &Op::Format {
                kind: PageKind::Master,
                level: 0,
                owner: 0,
            },
        );
        let tree = Tree::create_in(&mut mini, leaves, branches, CATALOGUE_OWNER);
        let mut says = FIRST_NUMBER.to_le_bytes().to_vec();
        for number in [
            undo.number,
            tree.root.page,
            leaves.number,
            branches.number,
            0,
        ] {
            says.extend(number.to_le_bytes());
        }
        mini.apply(
            page,
            &Op::Patch {
                offset: NUMBERS_AT,
                bytes: &says,
            },
        );
        mini.commit();
        Ok(Master { page })
    }

    /// What it says.
    pub(crate) fn read<P: Pages>(self, pages: &P) -> Result<MasterRecord, PagesError> {
        let page = until_loaded(pages, || pages.shared(self.page))?;
        let slots = get_u32(&page, SLOTS_AT.into()) as usize;
        if header::kind(&page) != Some(PageKind::Master) || slots > slots_max(page.len()) {
            return Err(PagesError::Unreadable {
                page: self.page,
                reason: "it is no master page".to_owned(),
            });
        }
        let space = self.page.space;
        let field = |index: usize| get_u32(&page, usize::from(SEGMENTS_AT) + 4 * index);
        let segment = |number| SegmentId { space, number };
        let slot_at = |index: usize| get_u32(&page, usize::from(SLOTS_AT) + 4 + 4 * index);
        Ok(MasterRecord {
            numbers: get_u64(&page, NUMBERS_AT.into()),
            undo: segment(field(0)),
            catalogue: Tree {
                root: PageId::new(space, field(1)),
                leaf_segment: segment(field(2)),
                branch_segment: segment(field(3)),
                owner: CATALOGUE_OWNER,
            },
            slots: (0..slots)
                .map(|index| PageId::new(space, slot_at(index)))
                .collect(),
        })
    }

    /// Notes that all numbers below `numbers` may be given. Need not be waited
    /// for: whatever bears such a number comes later in the log.
    pub(crate) fn reserve_numbers<P: Pages>(
        self,
        pages: &P,
        numbers: u64,
    ) -> Result<(), PagesError> {
        in_mini(pages, &[], 0, |mini| {
            mini.exclusive(self.page)?;
            let bytes = &numbers.to_le_bytes();
            let offset = NUMBERS_AT;
            mini.apply(self.page, &Op::Patch { offset, bytes });
            Ok(())
        })?;
        Ok(())
    }

    /// Enters a new slot in the master page, which is latched. Returns its
    /// number.
    pub(crate) fn add_slot(self, mini: &mut impl MiniTransaction, header: PageId) -> u32 {
        let number = get_u32(mini.page(self.page), SLOTS_AT.into());
        let mut patch = |offset: u16, value: u32| {
            let bytes = &value.to_le_bytes();
            mini.apply(self.page, &Op::Patch { offset, bytes });
        };
        patch(SLOTS_AT, number + 1);
        patch(SLOTS_AT + 4 + 4 * number as u16, header.page);
        number
    }
}
