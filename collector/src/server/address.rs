use crate::failure::Usage;

/// The address of a server: a scheme and a name, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn parse(given: &str) -> Result<Self, Usage> {
        let refuse =
            |expected: &str| Err(Usage::new(format!("--server: got `{given}`, expected {expected}")));
        let Some(rest) = given.strip_prefix("http://").or_else(|| given.strip_prefix("https://")) else {
            return refuse("an address that begins with http:// or https://");
        };
        let address = given.trim_end_matches('/');
        if rest.trim_end_matches('/').is_empty()
            || rest.contains(['?', '#', '@'])
            || rest.contains(char::is_whitespace)
        {
            return refuse("a scheme and a name alone, such as https://diode.example.org");
        }
        Ok(Self(address.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nobody can read a request on its way, because it is encrypted or stays on this
    /// machine.
    pub(crate) fn is_private(&self) -> bool {
        let Some(rest) = self.0.strip_prefix("http://") else { return true };
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let address: Option<std::net::IpAddr> = host.parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_scheme_and_a_name() {
        assert_eq!(Address::parse("https://d.example/").unwrap().as_str(), "https://d.example");
        for bad in ["d.example", "ftp://d", "http://", "http://a@b", "https://d?token=x", "https://d e"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_encrypted_and_local_ways_are_private() {
        for private in
            ["https://d.example", "http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:8080"]
        {
            assert!(Address::parse(private).unwrap().is_private(), "{private}");
        }
        for open in
            ["http://d.example", "http://10.0.0.1:8080", "http://localhost.d.example", "http://127.0.0.1.d"]
        {
            assert!(!Address::parse(open).unwrap().is_private(), "{open}");
        }
    }
}
