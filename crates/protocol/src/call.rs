//! The calls that are caught, by number, as `iolane run --check` counts them.

/// Declares them with their names.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// One of the calls that are caught; spellings that differ only in the size of an
        /// offset or in a check of a buffer's size count as one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Call { $($(#[$doc])* $name),* }

        impl Call {
            /// All of them, by number.
            pub const ALL: &[Call] = &[$(Call::$name),*];

            /// As its manual page is called.
            pub const fn name(self) -> &'static str {
                match self { $(Call::$name => $text),* }
            }
        }
    };
}

calls! {
    /// read(2)
    Read "read",
    /// readv(2)
    Readv "readv",
    /// pread(2)
    Pread "pread",
    /// preadv(2)
    Preadv "preadv",
    /// preadv2(2)
    Preadv2 "preadv2",
    /// write(2)
    Write "write",
    /// writev(2)
    Writev "writev",
    /// pwrite(2)
    Pwrite "pwrite",
    /// pwritev(2)
    Pwritev "pwritev",
    /// pwritev2(2)
    Pwritev2 "pwritev2",
    /// fsync(2)
    Fsync "fsync",
    /// fdatasync(2)
    Fdatasync "fdatasync",
    /// sync_file_range(2)
    SyncFileRange "sync_file_range",
    /// io_submit(2)
    IoSubmit "io_submit",
    /// io_getevents(2)
    IoGetevents "io_getevents",
    /// io_uring_submit(3)
    IoUringSubmit "io_uring_submit",
}

const _: () = assert!(Call::ALL.len() <= crate::CALLS_MAX);
