use diode_core::Invalid;

/// The e-mail address of somebody, such as `ada@example.org`. It has the plain form that all mail servers
/// accept, without quotes, comments or letters beyond ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailAddress(String);

impl EmailAddress {
    /// The longest address that SMTP allows.
    const MAX_LEN: usize = 254;
    const MAX_LOCAL: usize = 64;
    /// The longest part of a name in the DNS.
    const MAX_LABEL: usize = 63;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for EmailAddress {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_address = |(local, host): (&str, &str)| is_local(local) && is_host(host);
        if text.len() <= Self::MAX_LEN && text.rsplit_once('@').is_some_and(is_address) {
            return Ok(Self(text.to_owned()));
        }
        Err(Invalid::new(
            "e-mail address",
            // The message repeats only the start of what was sent.
            format_args!("`{:.40}`", text.escape_debug().to_string()),
            "a name, @ and a host in plain ASCII, such as ada@example.org",
        ))
    }
}

impl TryFrom<String> for EmailAddress {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl std::fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_local(local: &str) -> bool {
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    let is_atom = |part: &str| !part.is_empty() && part.bytes().all(atom);
    local.len() <= EmailAddress::MAX_LOCAL && local.split('.').all(is_atom)
}

fn is_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| {
        let dashes = label.starts_with('-') || label.ends_with('-');
        (1..=EmailAddress::MAX_LABEL).contains(&label.len()) && label.bytes().all(plain) && !dashes
    };
    host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_and_hold_nothing_that_a_mail_server_would_read_otherwise() {
        for right in
            ["ada@example.org", "a.b+diode@sub.example-1.org", "root@localhost", "x@xn--nxasmq6b.org"]
        {
            assert_eq!(right.parse::<EmailAddress>().unwrap().to_string(), right);
        }
        let (long, longer) = ("x".repeat(65) + "@example.org", "a@".to_owned() + &"x.".repeat(126) + "org");
        for wrong in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@.org",
            "ada@-a.org",
            ".ada@example.org",
            "ada@eve@example.org",
            "ada@example.org>",
            "ada@example.org\r\nBcc: eve@example.org",
            "ada,eve@example.org",
            "Ada <ada@example.org>",
            "\"ada\"@example.org",
            "ädä@example.org",
            "ada@[127.0.0.1]",
            &long,
            &longer,
        ] {
            let error = wrong.parse::<EmailAddress>().unwrap_err().to_string();
            assert!(error.contains("such as ada@example.org"), "{error}");
        }
    }
}
