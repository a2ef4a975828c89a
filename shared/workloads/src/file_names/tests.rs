use diode_core::problem::problems_in;

use super::*;

#[test]
fn names_follow_each_project() {
    let block = Some([128, 128]);
    let key = FileKey { word: DtypeWord::Fp8W8A8, block, ..FileKey::new(257, 256, "NVIDIA_H200") };
    assert_eq!(
        key.name(Consumer::Vllm),
        "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    );
    let down = FileKey { down: true, ..key.clone() };
    let name = down.name(Consumer::Sglang);
    assert_eq!(name, "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]_down.json");
    assert_eq!(FileKey::parse(&name).unwrap(), down);
    let dense = DenseKey { n: 2112, k: 7168, device: "NVIDIA_H200".into(), word: key.word, block };
    let name = "N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    assert_eq!(dense.name(Consumer::Vllm), name);
    assert_eq!(FileName::parse(name).unwrap(), FileName::Dense(dense));
    assert_eq!(FileKey::new(8, 7168, "").name(Consumer::Sglang), "E=8,N=7168,device_name=.json");
}

#[test]
fn a_bad_name_says_what_is_wrong_with_it() {
    for (name, said) in [
        ("E=8,N=7168,device_name=NVIDIA_H200", "no `.json` at the end"),
        ("config.json", "the part `config`"),
        ("A=8.json", "expected a name such as `E=128"),
        ("E=8,N=x,device_name=D.json", "N: got `x`, expected a number"),
        ("E=08,N=1,device_name=D.json", "E: got `08`"),
        ("E=8,K=1,device_name=D.json", "N: got `no such part`"),
        ("E=8,N=1,dtype=fp8_w8a8.json", "device_name: got no such part"),
        ("E=8,N=1,device_name=D,dtype=fp9.json", "got `fp9`, expected one of float32 fp8_w8a8"),
        ("E=8,N=1,device_name=D,block_shape=[128].json", "block_shape: got `[128]`"),
        ("E=8,N=1,device_name=D,block_shape=[0,128].json", "block_shape: got `[0,128]`"),
        ("E=8,N=1,device_name=D,block_shape=[1,  2].json", "block_shape: got `[1,  2]`"),
        ("E=8,N=1,device_name=D,per_channel_quant=False.json", "expected `True`, or no such part"),
        ("E=8,N=1,H=4096,device_name=D.json", "device_name: got no such part"),
        ("E=8,N=1,device_name=D,block_shape=[1,2],dtype=fp8_w8a8.json", "the part `dtype=fp8_w8a8`"),
        ("E=8,N=1,device_name=D,H=4096.json", "the part `H=4096`"),
        ("N=8,K=1,device_name=D_down.json", "expected a name such as"),
    ] {
        let error = FileName::parse(name).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    assert!(FileKey::parse("N=8,K=1,device_name=D.json").is_err(), "it is the name of a dense file");
}

#[test]
fn devices_are_called_as_their_drivers_call_them() {
    let name = |hardware: &str, consumer, dense| {
        device_name(&Hardware::from_name(hardware).unwrap(), consumer, dense)
    };
    for (hardware, vllm, dense, sglang) in [
        ("NVIDIA H200", "NVIDIA_H200", "NVIDIA_H200", "NVIDIA_H200"),
        ("NVIDIA H200 NVL", "NVIDIA_H200", "NVIDIA_H200_NVL", "NVIDIA_H200_NVL"),
        ("NVIDIA H100", "NVIDIA_H100_80GB_HBM3", "NVIDIA_H100_80GB_HBM3", "NVIDIA_H100_80GB_HBM3"),
        ("NVIDIA H100 PCIe", "NVIDIA_H100_PCIe", "NVIDIA_H100_PCIe", "NVIDIA_H100_PCIe"),
        ("NVIDIA A100", "NVIDIA_A100-SXM4-80GB", "NVIDIA_A100-SXM4-80GB", "NVIDIA_A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA_A100_80GB_PCIe", "NVIDIA_A100_80GB_PCIe", "NVIDIA_A100_80GB_PCIe"),
        ("AMD Instinct MI300X", "AMD_Instinct_MI300X", "AMD_Instinct_MI300X", "AMD_Instinct_MI300X"),
        ("NVIDIA GH200 480GB", "NVIDIA_GH200_480GB", "NVIDIA_GH200_480GB", "NVIDIA_GH200_480GB"),
        ("AMD  A/B", "AMD_A_B", "AMD_A_B", "AMD__A/B"),
    ] {
        assert_eq!(name(hardware, Consumer::Vllm, false), vllm, "{hardware}");
        assert_eq!(name(hardware, Consumer::Vllm, true), dense, "{hardware}");
        assert_eq!(name(hardware, Consumer::Sglang, false), sglang, "{hardware}");
    }
    let slug = |device| hardware_of(device).map(|hardware| hardware.slug.as_str().to_owned());
    assert_eq!(slug("NVIDIA_H100_80GB_HBM3").as_deref(), Some("nvidia-h100"));
    assert_eq!(slug("NVIDIA_A100-SXM4-80GB").as_deref(), Some("nvidia-a100"));
    assert_eq!(slug("NVIDIA_B200"), None);
}

#[test]
fn a_problem_knows_its_file() {
    let hardware = find("nvidia-h200").unwrap();
    for (text, vllm, sglang) in [
        ("moe 128x384x4096 top8 16 tokens bf16", "E=128,N=384,device_name=NVIDIA_H200.json", ""),
        (
            "moe 128x384x4096 top8 16 tokens fp8 block",
            "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
        ),
        (
            "moe 128x384x4096 top8 16 tokens fp8 row",
            "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
            "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,per_channel_quant=True.json",
        ),
        (
            "64x2112x7168 fp8 block",
            "N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            "N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
        ),
    ] {
        let problems = problems_in(text, DType::BFloat16).unwrap();
        for (at, problem) in problems.iter().enumerate() {
            let name = |consumer| FileName::of(problem, &hardware, consumer).unwrap().name(consumer);
            assert_eq!(name(Consumer::Vllm), vllm);
            let sglang = if sglang.is_empty() { vllm } else { sglang };
            // The second problem of a layer is its second multiplication.
            let sglang = if at == 1 { sglang.replace(".json", "_down.json") } else { sglang.to_owned() };
            assert_eq!(name(Consumer::Sglang), sglang);
        }
    }
    let plain = problems_in("64x2112x7168 fp8 row", DType::BFloat16).unwrap().remove(0);
    assert_eq!(FileName::of(&plain, &hardware, Consumer::Vllm), None);
}

#[test]
fn folders_are_those_of_the_running_triton() {
    assert_eq!(Consumer::Sglang.folder("3.8.0"), "configs/triton_3_8_0/");
    assert_eq!(Consumer::Vllm.folder("3.8.0"), "");
    assert_eq!(triton_of("triton_3_8_0").as_deref(), Some("3.8.0"));
    assert_eq!(triton_of("triton_new"), None);
}
