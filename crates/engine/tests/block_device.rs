//! Block devices: a loop device on a file.

mod common;

use common::{BACKENDS, PAGE, engine, folder};
use iolane::{Buffer, Level, OpenError, OpenOptions, Policy};
use iolane_testing::{LoopDevice, skipped};

#[test]
fn a_block_device_is_read_and_written() {
    const BYTES: u64 = 1 << 20;
    let folder = folder();
    let device = match LoopDevice::new(folder.path(), BYTES) {
        Ok(device) => device,
        Err(why) => return skipped(why),
    };
    for backend in BACKENDS {
        let Some(engine) = engine(backend, Policy::Lanes) else {
            continue;
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).direct(true).exclusive(true);
        let file = engine.open(device.path(), &options).unwrap();
        assert!(file.is_block_device() && file.is_direct());
        assert_eq!(file.size().unwrap(), BYTES);
        assert_eq!(file.device().info().name, device.name());

        let busy = engine.open(device.path(), &options).unwrap_err();
        let OpenError::Open { source, .. } = &busy else {
            panic!("{busy}");
        };
        assert_eq!(source.raw_os_error(), Some(libc::EBUSY));

        let mut page = Buffer::new(PAGE);
        page.fill(backend as u8 + 1);
        file.write_at(&page, 512, Level::Critical).unwrap();
        file.sync_data(Level::Critical).unwrap();
        let read = file.read(Buffer::new(PAGE), 512, Level::Normal).unwrap();
        assert_eq!(*read.wait().buffer, *page);
        // At the very end of the device: what is left, then nothing.
        let end = file.read(Buffer::new(PAGE), BYTES - 512, Level::Normal);
        assert_eq!(end.unwrap().wait().result.unwrap(), 512);
        let beyond = file.write(page, BYTES, Level::Normal).unwrap().wait();
        let error = beyond.result.unwrap_err();
        assert_eq!(error.os_error(), Some(libc::ENOSPC), "{error}");
        let error = engine
            .open(
                device.path(),
                options.clone().exclusive(false).size(2 * BYTES),
            )
            .unwrap_err();
        assert!(matches!(error, OpenError::Size { .. }), "{error}");
    }
}
