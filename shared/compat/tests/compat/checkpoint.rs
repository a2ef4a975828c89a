//! torch's checkpoints, real and forged.

use diode_compat::{SavedTensor, SavedValues, Setting};

use diode_compat::{decode_checkpoint, read_checkpoint};

/// An archive without compression, as torch writes it.
fn archive(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let name = format!("model/{name}");
        let lengths = |out: &mut Vec<u8>| {
            // The checksum, the packed size and the unpacked size.
            out.extend(crc32fast::hash(content).to_le_bytes());
            out.extend((content.len() as u32).to_le_bytes());
            out.extend((content.len() as u32).to_le_bytes());
            out.extend((name.len() as u16).to_le_bytes());
        };
        list.extend(b"PK\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0");
        lengths(&mut list);
        list.extend([0; 12]);
        list.extend((file.len() as u32).to_le_bytes());
        list.extend(name.as_bytes());
        file.extend(b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0");
        lengths(&mut file);
        file.extend([0; 2]);
        file.extend(name.as_bytes());
        file.extend(content);
    }
    let start = file.len() as u32;
    file.extend(&list);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([(entries.len() as u16).to_le_bytes(), (entries.len() as u16).to_le_bytes()].concat());
    file.extend((list.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A tensor on storage 0, which claims to have `count` values.
fn tensor(shape: &[i32], stride: &[i32], count: i32) -> Vec<u8> {
    let number = |value: i32| [b"J", &value.to_le_bytes()[..]].concat();
    let numbers = |values: &[i32]| {
        [b"(".to_vec(), values.iter().flat_map(|&v| number(v)).collect(), b"t".to_vec()].concat()
    };
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        number(count),
        b"tQK\x00".to_vec(),
        numbers(shape),
        numbers(stride),
        b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
    ]
    .concat()
}

/// A pickle of a whole checkpoint with one tensor.
fn pickle(tensor: &[u8]) -> Vec<u8> {
    [
        b"\x80\x02}q\x00(".to_vec(),
        text("model_state_dict"),
        b"ccollections\nOrderedDict\n)Rq\x01(".to_vec(),
        text("w"),
        tensor.to_vec(),
        b"u}".to_vec(),
        text("_metadata"),
        b"Nsb".to_vec(),
        text("hidden_dims"),
        b"](M\x00\x01K\x02e".to_vec(),
        text("dropout_rate"),
        b"G\x3f\xc9\x99\x99\x99\x99\x99\x9a".to_vec(),
        b"u.".to_vec(),
    ]
    .concat()
}

fn file(pickle: Vec<u8>) -> Vec<u8> {
    let values: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    archive(&[("data.pkl", pickle), ("byteorder", b"little".to_vec()), ("data/0", values)])
}

fn refusal(bytes: &[u8]) -> String {
    let error = decode_checkpoint(bytes).expect_err("refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn tensors_and_settings_are_read() {
    let checkpoint = decode_checkpoint(&file(pickle(&tensor(&[2, 3], &[3, 1], 6)))).unwrap();
    let values = SavedValues::Float32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(checkpoint.tensors["w"], SavedTensor { shape: vec![2, 3], values });
    assert_eq!(checkpoint.settings["hidden_dims"], Setting::Wholes(vec![256, 2]));
    assert_eq!(checkpoint.settings["dropout_rate"], Setting::Real(0.2));
}

#[test]
fn truncation_at_any_byte_is_an_error() {
    let whole = file(pickle(&tensor(&[2, 3], &[3, 1], 6)));
    for length in 0..whole.len() {
        refusal(&whole[..length]);
    }
    let code = pickle(&tensor(&[2, 3], &[3, 1], 6));
    for length in 0..code.len() {
        refusal(&file(code[..length].to_vec()));
    }
}

#[test]
fn nothing_foreign_is_run() {
    let evil = b"cos\nsystem\n(X\x04\0\0\0true".to_vec();
    let error = refusal(&file([b"\x80\x02".to_vec(), evil, b"tR.".to_vec()].concat()));
    assert!(error.contains("got `os.system`") && error.contains("nothing was run"), "{error}");
    for (name, code) in [
        ("`builtins.eval`", &b"\x80\x02cbuiltins\neval\n."[..]),
        ("`torch.load`", b"\x80\x02ctorch\nload\n."),
        ("`collections.OrderedDict.fromkeys`", b"\x80\x02ccollections\nOrderedDict.fromkeys\n."),
        ("instruction 0x69", b"\x80\x02(ios\nsystem\n."),
        ("instruction 0x93", b"\x80\x02X\x02\0\0\0osX\x06\0\0\0system\x93."),
        ("no function with such arguments", b"\x80\x02ctorch\nFloatStorage\n)R."),
        ("protocol 4", b"\x80\x04}."),
        ("something that is no map", b"\x80\x02ctorch\nFloatStorage\n}b."),
    ] {
        let error = refusal(&file(code.to_vec()));
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn claims_beyond_the_bytes_are_refused() {
    for (tensor, words) in [
        (tensor(&[2, 3], &[3, 1], i32::MAX), "24 bytes, expected 2147483647 values of 4"),
        (tensor(&[2, 3], &[3, 1], -1), "got -1, expected a size"),
        (tensor(&[2, 4], &[4, 1], 6), "a shape of [2, 4] from value 0, where data/0 has 6"),
        (tensor(&[i32::MAX; 4], &[i32::MAX; 4], 6), "dense"),
        (tensor(&[3, 2], &[1, 3], 6), "strides [1, 3]"),
        (tensor(&[1, 1, 1, 1, 6], &[6, 6, 6, 6, 1], 6), "at most 4 dense dimensions"),
    ] {
        let error = refusal(&file(pickle(&tensor)));
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn lists_that_hold_themselves_do_no_harm() {
    let error = refusal(&file(b"\x80\x02]q\x00h\x00a.".to_vec()));
    assert!(error.contains("expected one with `model_state_dict`"), "{error}");
    let nested = [b"\x80\x02)".to_vec(), vec![0x85; 100_000], b".".to_vec()].concat();
    assert!(refusal(&file(nested)).contains("other than a map"));
    let many = [b"\x80\x02".to_vec(), vec![b'N'; 200_000], b".".to_vec()].concat();
    assert!(refusal(&file(many)).contains("more than 131072 values"));
}

#[test]
fn other_archives_are_called_what_they_are() {
    let error = refusal(&archive(&[("notes.txt", b"hello".to_vec())]));
    assert!(error.contains("no entry data.pkl"), "{error}");
    let mut compressed = file(pickle(&tensor(&[2, 3], &[3, 1], 6)));
    let listed = compressed.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    compressed[listed + 10] = 8;
    assert!(refusal(&compressed).contains("is compressed"));
    let big = archive(&[("data.pkl", b"\x80\x02}.".to_vec()), ("byteorder", b"big".to_vec())]);
    assert!(refusal(&big).contains("got big, expected little"));
    let twice = archive(&[("data.pkl", b".".to_vec()), ("data/0", vec![]), ("data/0", vec![])]);
    assert!(refusal(&twice).contains("data/0 twice"));
    assert!(refusal(b"{\"shapes\": []}").contains("got a shape set"));
}

#[test]
fn a_value_that_differs_from_its_checksum_is_refused() {
    let intact = file(pickle(&tensor(&[2, 3], &[3, 1], 6)));
    assert!(decode_checkpoint(&intact).is_ok());
    let storage = intact.windows(6).position(|window| window == b"data/0").unwrap() + 6;
    let mut damaged = intact;
    damaged[storage] ^= 1;
    assert!(refusal(&damaged).contains("data/0 differs from its checksum: the file is damaged"));
}

#[test]
fn torch_diodes_own_model_is_read() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let path = std::path::Path::new(&folder).join("v1_model.pt");
    let checkpoint = read_checkpoint(&path).unwrap();
    assert_eq!(checkpoint.tensors.len(), 44);
    let values: usize = checkpoint.tensors.values().map(|t| t.shape.iter().product::<usize>()).sum();
    assert_eq!(values, 338_695);
    assert_eq!(checkpoint.tensors["linear_relu_stack.0.weight"].shape, [256, 12]);
    let seen = &checkpoint.tensors["linear_relu_stack.1.num_batches_tracked"];
    assert_eq!(seen, &SavedTensor { shape: vec![], values: SavedValues::Int64(vec![79_933]) });
    assert_eq!(checkpoint.settings["hidden_layer_widths"], Setting::Wholes(vec![256; 6]));
    assert_eq!(checkpoint.settings["kernel_overhead"], Setting::Real(0.00541));
}
