//! Sends mails to a mail server, or writes them to a folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};

use super::{EmailAddress, Failure, Letter};
use crate::settings::{MailServer, MailSettings, Security, Smtp};

pub(super) struct Transport {
    from: EmailAddress,
    host: String,
    way: Way,
}

enum Way {
    Folder(PathBuf),
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
}

/// A letter in the form in which it is sent.
pub(super) struct Written {
    id: String,
    envelope: Envelope,
    bytes: Vec<u8>,
}

impl Transport {
    pub(super) fn new(settings: &MailSettings, host: &str) -> anyhow::Result<Self> {
        let way = match &settings.server {
            MailServer::Folder(folder) => Way::Folder(folder.clone()),
            MailServer::Smtp(smtp) => Way::Smtp(connection(smtp, settings.ca.as_deref(), host)?),
        };
        Ok(Self { from: settings.from.clone(), host: host.to_owned(), way })
    }

    /// Writes a letter in the form in which it is sent. No other mail has this `id`.
    pub(super) fn write(&self, letter: &Letter, id: &str) -> anyhow::Result<Written> {
        let mailbox =
            |address: &EmailAddress| Ok::<_, anyhow::Error>(Mailbox::new(None, address.as_str().parse()?));
        let mut message = Message::builder()
            .from(mailbox(&self.from)?)
            .to(mailbox(&letter.to)?)
            .subject(&letter.subject)
            .message_id(Some(format!("<{id}@{}>", self.host)))
            .header(ContentType::TEXT_PLAIN)
            .body(plain(&letter.text)?)?;
        // Asks other programs for no automatic replies, such as notes of absence (RFC 3834).
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        message.headers_mut().insert_raw(HeaderValue::new(automatic, "auto-generated".to_owned()));
        Ok(Written { id: id.to_owned(), envelope: message.envelope().clone(), bytes: message.formatted() })
    }

    pub(super) async fn send(&self, written: &Written) -> Result<(), Failure> {
        match &self.way {
            Way::Folder(folder) => {
                let (folder, id, bytes) = (folder.clone(), written.id.clone(), written.bytes.clone());
                let stored = tokio::task::spawn_blocking(move || store(&folder, &id, &bytes)).await;
                let stored = stored.unwrap_or_else(|error| Err(error.into()));
                stored.map_err(|cause| Failure { cause, is_final: false })
            }
            Way::Smtp(smtp) => {
                let sent = smtp.send_raw(&written.envelope, &written.bytes).await;
                sent.map(drop)
                    .map_err(|error| Failure { is_final: error.is_permanent(), cause: error.into() })
            }
        }
    }
}

/// The text unchanged. The library would encode lines above 76 characters, which breaks links in programs
/// that show the encoded text. Mail servers accept lines of up to 998 characters (RFC 5322).
fn plain(text: &str) -> anyhow::Result<Body> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
    if !text.bytes().all(is_plain) || text.lines().any(|line| line.len() > 998) {
        bail!("its text is not plain ASCII in lines of at most 998 characters");
    }
    let bytes = text.replace('\n', "\r\n").into_bytes();
    Ok(Body::dangerous_pre_encoded(bytes, ContentTransferEncoding::SevenBit))
}

/// Writes the mail to a file whose name sorts by time. Only the server's user may read it, because it may
/// have a link into an account.
fn store(folder: &Path, id: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let file = folder.join(format!("{}-{id}.eml", jiff::Timestamp::now().as_millisecond()));
    let stored = std::fs::create_dir_all(folder).and_then(|()| diode_formats::write_privately(&file, bytes));
    stored.with_context(|| format!("mail {}", file.display()))
}

fn connection(
    smtp: &Smtp,
    ca: Option<&Path>,
    host: &str,
) -> anyhow::Result<AsyncSmtpTransport<Tokio1Executor>> {
    let parameters = || {
        let parameters = TlsParameters::builder(smtp.host.clone());
        let parameters = match ca {
            None => parameters.certificate_store(CertificateStore::WebpkiRoots),
            Some(file) => {
                let read = || anyhow::Ok(Certificate::from_pem(&std::fs::read(file)?)?);
                let trusted = read().with_context(|| format!("mail ca {}", file.display()))?;
                parameters.certificate_store(CertificateStore::None).add_root_certificate(trusted)
            }
        };
        anyhow::Ok(parameters.build_rustls()?)
    };
    let tls = match smtp.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(parameters()?),
        Security::Tls => Tls::Wrapper(parameters()?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&smtp.host)
        .port(smtp.port)
        .tls(tls)
        .hello_name(ClientId::Domain(host.to_owned()));
    if let Some(login) = &smtp.login {
        builder = builder.credentials(Credentials::new(login.user.clone(), login.password.clone()));
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_plain_text_whose_links_stay_whole() {
        let from: EmailAddress = "diode@example.org".parse().unwrap();
        let settings = MailSettings { server: MailServer::Folder("mails".into()), from, ca: None };
        let transport = Transport::new(&settings, "diode.example.org").unwrap();
        let link = format!("https://diode.example.org/password?link={}", "0a".repeat(32));
        let letter = Letter {
            to: "ada@example.org".parse().unwrap(),
            subject: "A new password".to_owned(),
            text: format!("Here:\n\n{link}\n"),
        };
        let written = transport.write(&letter, "1.2").unwrap();
        let text = String::from_utf8(written.bytes).unwrap();
        for line in [
            "From: diode@example.org",
            "To: ada@example.org",
            "Subject: A new password",
            "Auto-Submitted: auto-generated",
            "Content-Transfer-Encoding: 7bit",
            &link,
        ] {
            assert!(text.split("\r\n").any(|there| there == line), "no line `{line}` in\n{text}");
        }
        assert!(text.contains("\r\nDate: ") && text.contains("<1.2@diode.example.org>\r\n"), "{text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
        for text in ["\r\nBcc: eve@example.org".to_owned(), "x".repeat(999), "ä".to_owned()] {
            assert!(transport.write(&Letter { text, ..letter.clone() }, "1.2").is_err());
        }
    }
}
