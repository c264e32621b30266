//! Programs, and what they stand for.

use serde_json::json;

use super::*;

/// A pickle of any kind.
fn read(bytes: &[u8]) -> Result<Value, PickleError> {
    super::read(bytes)
}

/// Writes as PyTorch does: protocol 2, texts remembered.
pub(crate) fn pickled(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    write(value, &mut bytes);
    bytes.push(b'.');
    bytes
}

fn write(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.push(b'N'),
        Value::Bool(truth) => bytes.push(if *truth { 0x88 } else { 0x89 }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => {
                bytes.extend([0x8a, 8]);
                bytes.extend(whole.to_le_bytes());
            }
            None => {
                bytes.push(b'G');
                bytes.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => {
            bytes.push(b'X');
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.extend([b'q', bytes.len() as u8]);
        }
        Value::Array(items) => {
            bytes.extend(b"](");
            items.iter().for_each(|item| write(item, bytes));
            bytes.push(b'e');
        }
        Value::Object(entries) => {
            bytes.extend(b"}(");
            for (key, value) in entries {
                write(&key.clone().into(), bytes);
                write(value, bytes);
            }
            bytes.push(b'u');
        }
    }
}

#[test]
fn python_pickles_are_read() {
    // pickle.dumps({"a": [1, -2, 300, 70000], "b": (True, None, 1.5), 3: "x"}, protocol=4)
    let framed = b"\x80\x04\x95+\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffM\
        ,\x01Jp\x11\x01\0e\x8c\x01b\x94\x88NG?\xf8\0\0\0\0\0\0\x87\x94K\x03\x8c\x01x\x94u.";
    let expected = json!({"a": [1, -2, 300, 70000], "b": [true, null, 1.5], "3": "x"});
    assert_eq!(read(framed).unwrap(), expected);
    // The same in protocol 0, with a long and a text put to memory.
    let oldest = b"(dp0\nVa\np1\n(lp2\nI1\naL-2L\nasVb\n(I01\nNF1.5\ntsI3\nV\x78\np3\ns.";
    let expected = json!({"a": [1, -2], "b": [true, null, 1.5], "3": "x"});
    assert_eq!(read(oldest).unwrap(), expected);
}

#[test]
fn pickle_never_calls_anything() {
    let system = read(b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.").unwrap_err();
    let name = "os system".to_owned();
    assert_eq!(system, PickleError::Call { name });
    let stacked = read(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.").unwrap_err();
    assert_eq!(system, stacked);
    assert!(matches!(
        read(b"cos\nsystem\n."),
        Err(PickleError::Call { .. })
    ));
    // To build an object or to load a persistent one is a call by another name.
    let instance = read(b"(Vtrue\nios\nsystem\n.").unwrap_err();
    assert_eq!(system, instance);
    // Neither is what is harmless with other arguments.
    let encode = read(b"c_codecs\nencode\n(Vx\ntR.").unwrap_err();
    assert!(matches!(encode, PickleError::Call { .. }));
    for code in [b"b".as_slice(), b"\x81", b"o", b"Q", b"P", b"\x82"] {
        let program = [b"NN", code, b"."].concat();
        assert!(matches!(read(&program), Err(PickleError::Unknown { .. })));
    }
}

#[test]
fn all_pickle_protocols_agree() {
    // {"é\n\\'€😀": [2**40, -2**40, True, None, ()], "raw": b"ab\xff"}, from the oldest protocol on.
    let dumps: [&[u8]; 4] = [
        b"(dp0\nV\xe9\\u000a\\u005c'\\u20ac\\U0001f600\np1\n(lp2\nL1099511627776L\n\
          aL-1099511627776L\naI01\naNa(tasVraw\np3\nc_codecs\nencode\np4\n(Vab\xff\n\
          p5\nVlatin1\np6\ntp7\nRp8\ns.",
        b"}q\x00(X\x0c\0\0\0\xc3\xa9\n\\'\xe2\x82\xac\xf0\x9f\x98\x80q\x01]q\x02(\
          L1099511627776L\nL-1099511627776L\nI01\nN)eX\x03\0\0\0rawq\x03c_codecs\nencode\n\
          q\x04(X\x04\0\0\0ab\xc3\xbfq\x05X\x06\0\0\0latin1q\x06tq\x07Rq\x08u.",
        b"\x80\x02}q\x00(X\x0c\0\0\0\xc3\xa9\n\\'\xe2\x82\xac\xf0\x9f\x98\x80q\x01]q\x02(\
          \x8a\x06\0\0\0\0\0\x01\x8a\x06\0\0\0\0\0\xff\x88N)eX\x03\0\0\0rawq\x03\
          c_codecs\nencode\nq\x04X\x04\0\0\0ab\xc3\xbfq\x05X\x06\0\0\0latin1q\x06\x86\
          q\x07Rq\x08u.",
        b"\x80\x04\x95<\0\0\0\0\0\0\0}\x94(\x8c\x0c\xc3\xa9\n\\'\xe2\x82\xac\xf0\x9f\x98\x80\
          \x94]\x94(\x8a\x06\0\0\0\0\0\x01\x8a\x06\0\0\0\0\0\xff\x88N)e\x8c\x03raw\x94\
          \x8c\x04ab\xc3\xbf\x94u.",
    ];
    let numbers = json!([1i64 << 40, -(1i64 << 40), true, null, []]);
    let expected = json!({"é\n\\'€😀": numbers, "raw": "abÿ"});
    for dump in dumps {
        assert_eq!(read(dump).unwrap(), expected, "{}", dump.escape_ascii());
    }
}

#[test]
fn pickle_pop_and_dup_work() {
    assert_eq!(read(b"I1\n(I2\nI3\n1.").unwrap(), json!(1));
    assert_eq!(read(b"(I7\n2t.").unwrap(), json!([7, 7]));
    assert!(matches!(read(b"1."), Err(PickleError::Empty { .. })));
    assert!(matches!(read(b"2."), Err(PickleError::Empty { .. })));
}

#[test]
fn build_intlist_call_gives_list() {
    let list = b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R.";
    assert_eq!(read(list).unwrap(), json!([1, 2]));
}

#[test]
fn unwanted_pickle_values_are_skipped() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Wanted {
        a: Option<u64>,
        b: Option<String>,
        c: (u8, String),
    }
    // The same list twice in each, forty levels deep: too much to be looked at.
    let mut frames = b"]q\x000".to_vec();
    for level in 0..40u8 {
        frames.extend([
            b']',
            b'(',
            b'h',
            level,
            b'h',
            level,
            b'e',
            b'q',
            level + 1,
            b'0',
        ]);
    }
    frames.extend([b'h', 40]);
    let dump = [
        b"}(Va\nNVb\nVx\nVc\n(I1\nVy\ntVframes\n",
        &frames[..],
        b"u.",
    ]
    .concat();
    let wanted = Wanted {
        a: None,
        b: Some("x".to_owned()),
        c: (1, "y".to_owned()),
    };
    assert_eq!(super::read::<Wanted>(&dump), Ok(wanted));
    assert_eq!(read(&dump), Err(PickleError::Large));
    let longer = super::read::<Wanted>(b"}(Va\nNVb\nNVc\n(I1\nVy\nNtu.").unwrap_err();
    assert!(matches!(longer, PickleError::Unfit { .. }), "{longer}");
}

#[test]
fn pickle_nesting_and_size_are_bounded() {
    let deep = [vec![b']'; 100_000], vec![b'a'; 99_999], vec![b'.']].concat();
    assert_eq!(read(&deep), Err(PickleError::Deep));
    // A list that holds itself.
    assert_eq!(read(b"]q\0h\0a."), Err(PickleError::Deep));
    // Each list holds the one before it ten times.
    let mut doubling = b"]q\0".to_vec();
    for level in 0..12u8 {
        doubling.extend([b']', b'(']);
        doubling.extend([b'h', level].repeat(10));
        doubling.extend([b'e', b'q', level + 1]);
    }
    doubling.push(b'.');
    assert_eq!(read(&doubling), Err(PickleError::Large));
    let long_text = [b"\x8d".as_slice(), &[0xff; 8], b"."].concat();
    assert!(matches!(read(&long_text), Err(PickleError::Ends { .. })));
}
