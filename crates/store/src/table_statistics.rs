//! What is known of a table without reading its rows: sizes, estimates, and where
//! a row is.

use crate::access::PagesError;
use crate::backing::Backing;
use crate::data::{FirstColumn, Row, Value};
use crate::system::System;
use crate::tree::{Distinct, SpotAim as Aim, Tree};
use crate::txn::{Error, encode_bounds};
use std::ops::{Bound, RangeBounds};

/// Size of an index, the primary key among them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// Its name; `None` for the primary key, whose leaves hold the rows.
    pub name: Option<String>,
    /// Levels: 1 while it has one page.
    pub height: u32,
    /// Pages that are branches.
    pub branch_pages: u64,
    /// Pages that are leaves.
    pub leaf_pages: u64,
    /// Rows or entries, also those that only old views see; from 16 to 32 leaves.
    pub entries_estimate: u64,
}

/// Size of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Rows, about.
    pub rows_estimate: u64,
    /// Pages that its file has.
    pub pages: u64,
    /// Of these, in use.
    pub used_pages: u64,
    /// Pages of values that are too long for a leaf, among them.
    pub long_pages: u64,
    /// The primary key first, then the indexes in the order of the schema.
    pub indexes: Vec<IndexStatistics>,
}

/// How many different keys an index has, about.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyStatistics {
    /// Rows or entries, also those that only old views see.
    pub entries_estimate: u64,
    /// Different values of the first part of the key, of the first two parts, and so on.
    pub distinct_estimates: Vec<u64>,
}

impl<B: Backing> System<B> {
    /// Sizes of a table's trees.
    pub(crate) fn table_statistics(
        &self,
        name: &str,
        space: impl FnOnce(u32) -> Result<(u64, u64), PagesError>,
    ) -> Result<TableStatistics, Error> {
        let table = self.catalog.table(&self.backing, name)?;
        let indexes = table.indexes.iter();
        let trees = indexes.map(|index| (Some(index.name.clone()), &index.tree));
        let trees = [(None, &table.rows)].into_iter().chain(trees);
        let sizes: Result<Vec<IndexStatistics>, Error> = trees
            .map(|(name, tree)| {
                let size = tree.stats(&self.backing)?;
                Ok(IndexStatistics {
                    name,
                    height: size.height,
                    branch_pages: size.branch_pages,
                    leaf_pages: size.leaf_pages,
                    entries_estimate: size.records_estimate,
                })
            })
            .collect();
        let indexes = sizes?;
        let (pages, used_pages) = space(table.space)?;
        let long = self.backing.segment_pages(table.long.segment);
        Ok(TableStatistics {
            rows_estimate: indexes[0].entries_estimate,
            pages,
            used_pages,
            long_pages: long.len() as u64,
            indexes,
        })
    }

    /// How many rows or entries a range has, about.
    pub(crate) fn estimate_range(
        &self,
        name: &str,
        index: Option<&str>,
        bounds: &impl RangeBounds<[Value]>,
    ) -> Result<u64, Error> {
        let table = self.catalog.table(&self.backing, name)?;
        let (tree, of, columns) = match index {
            None => (&table.rows, "primary key", &table.key_columns),
            Some(index) => {
                let secondary = &table.indexes[table.position_of_index(index)?];
                (&secondary.tree, index, &secondary.columns)
            }
        };
        let (lower, upper) = encode_bounds(&table, of, columns, bounds)?;
        let from = match &lower {
            Bound::Unbounded => Aim::First,
            Bound::Included(key) => Aim::Before(key),
            Bound::Excluded(key) => Aim::Behind(key),
        };
        let to = match &upper {
            Bound::Unbounded => Aim::Last,
            Bound::Included(key) => Aim::Behind(key),
            Bound::Excluded(key) => Aim::Before(key),
        };
        let (from, to) = (
            tree.spot(&self.backing, from)?,
            tree.spot(&self.backing, to)?,
        );
        Ok(from.records_to(&to))
    }

    /// How many different values the parts of a key have, about.
    pub(crate) fn key_statistics(
        &self,
        name: &str,
        index: Option<&str>,
        parts: usize,
        whole_parts: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<KeyStatistics, Error> {
        let table = self.catalog.table(&self.backing, name)?;
        let (tree, columns) = match index {
            None => (&table.rows, &table.key_columns),
            Some(index) => {
                let secondary = &table.indexes[table.position_of_index(index)?];
                (&secondary.tree, &secondary.columns)
            }
        };
        let column = table.schema.columns[columns[0]].column_type;
        let mut first = FirstColumn::default();
        let Distinct { records, values } = tree.distinct(&self.backing, parts, &mut |a, b| {
            let pairs = a.iter().zip(b);
            let common = pairs.take_while(|(a, b)| a == b).count();
            first.read(&b[..common], column);
            match first.whole() {
                true => parts,
                false => whole_parts(first.bytes()).min(parts),
            }
        })?;
        Ok(KeyStatistics {
            entries_estimate: records,
            distinct_estimates: values,
        })
    }

    /// The bytes by which a row is found again.
    pub(crate) fn position_of(&self, name: &str, row: &Row) -> Result<Vec<u8>, Error> {
        let table = self.catalog.table(&self.backing, name)?;
        table.schema.check_row(row)?;
        table.key_of(row, Tree::key_bytes_max(&self.backing))
    }
}
