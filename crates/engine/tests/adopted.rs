//! Files that were open already.

mod common;

use common::{PAGE, folder, numbered};
use iolane::{Engine, Level, OpenError};

#[test]
fn an_adopted_file_is_used_as_it_was_opened() {
    let folder = folder();
    let path = numbered(&folder, 4);
    let engine = Engine::new().unwrap();
    let opened = std::fs::File::open(&path).unwrap();
    let file = engine.adopt(opened, &path).unwrap();
    assert!(!file.is_direct());
    let page = file
        .read(vec![0; PAGE], PAGE as u64, Level::Normal)
        .unwrap();
    assert_eq!(page.wait().buffer, [1; PAGE]);
    let refused = file.write_at(&[0; 1], 0, Level::Normal).unwrap_err();
    assert_eq!(refused.os_error(), Some(libc::EBADF));
    let appending = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    let refused = engine.adopt(appending, &path);
    assert!(matches!(refused, Err(OpenError::Append { .. })));
    let null = std::fs::File::open("/dev/null").unwrap();
    let refused = engine.adopt(null, "/dev/null");
    assert!(matches!(refused, Err(OpenError::NotAFile { .. })));
}
