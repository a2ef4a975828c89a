use maud::{Markup, html};

use super::layout::input;
use crate::mail::EmailAddress;

/// What an owner can do about the e-mail address of an account. On a server that sends no mails, an existing
/// address can still be removed.
pub(super) fn email_form(address: Option<&EmailAddress>, sends_mails: bool, has_password: bool) -> Markup {
    if !sends_mails && address.is_none() {
        return html! {};
    }
    let password = || {
        html! {
            @if has_password { (input("Password", "password", "password", "current-password", "")) }
        }
    };
    html! {
        h2 { "E-mail address" }
        @if let Some(address) = address {
            form class="card" method="post" action="/account/email/remove" {
                p {
                    "If your password is lost, a link for a new one can be sent to " strong { (address) } ". It is "
                    "used for nothing else but to tell you if it is replaced, and shown to nobody."
                }
                (password())
                button class="button danger" { "Take it off" }
            }
        }
        @if sends_mails {
            form class="card" method="post" action="/account/email" {
                @if address.is_none() {
                    p {
                        "With an address, you can get a link for a new password if yours is lost. You get a mail to "
                        "confirm it. It is used for nothing else but to tell you if it is replaced, and shown to "
                        "nobody."
                    }
                }
                (input(if address.is_some() { "Another address" } else { "Address" }, "email", "email", "email", ""))
                (password())
                button class="button" { "Send a link to confirm it" }
            }
        }
    }
}
