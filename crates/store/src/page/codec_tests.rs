use super::*;
use proptest::prelude::*;

fn op(number: u8, a: u16, b: u64, bytes: &[u8]) -> Op<'_> {
    match number {
        0 => Op::Format {
            kind: PageKind::from_number(a as u8 % 9).unwrap(),
            level: (a >> 8) as u8,
            owner: b,
        },
        1 => Op::Patch { offset: a, bytes },
        2 => Op::Insert {
            slot: a,
            record: bytes,
        },
        3 => Op::InsertMany {
            slot: a,
            records: bytes,
        },
        4 => Op::Replace {
            slot: a,
            record: bytes,
        },
        5 => Op::Remove {
            from: a,
            to: b as u16,
        },
        _ => Op::Image {
            level: a as u8,
            bytes,
        },
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        number in 0u8..7,
        a in any::<u16>(),
        b in any::<u64>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        space in any::<u32>(),
        page in any::<u32>(),
    ) {
        let (op, id) = (op(number, a, b, &bytes), PageId::new(space, page));
        let mut encoded = Vec::new();
        op.encode(id, &mut encoded);
        let end = encoded.len();
        encoded.extend(b"rest");
        prop_assert_eq!(Op::decode(&encoded), Ok((id, op, &b"rest"[..])));
        for cut in 0..end {
            prop_assert_eq!(Op::decode(&encoded[..cut]), Err(DecodeError::Truncated));
        }
    }

    #[test]
    fn garbage_is_refused_or_decoded_within_its_bounds(
        first in 0u8..9,
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut all = vec![first];
        all.extend(bytes);
        if let Ok((id, op, rest)) = Op::decode(&all) {
            prop_assert!(rest.len() < all.len());
            let mut page = vec![0; 4096];
            let _ = op.apply(&mut page, id);
        }
    }
}

#[test]
fn numbers_too_large_are_refused() {
    let mut encoded = vec![REMOVE, 0, 0];
    put_number(&mut encoded, 1 << 16);
    assert_eq!(Op::decode(&encoded), Err(DecodeError::Range));
    let endless = [&[FORMAT][..], &[0xff; 20]].concat();
    assert_eq!(Op::decode(&endless), Err(DecodeError::Range));
    assert_eq!(Op::decode(&[99, 0, 0]), Err(DecodeError::Number(99)));
    assert_eq!(Op::decode(&[FORMAT, 0, 0, 99]), Err(DecodeError::Kind(99)));
}
