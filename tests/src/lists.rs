//! Steps on the page that predicts a list.

use crate::{Browser, Server};

impl Browser {
    /// Opens the page, and waits for the model.
    pub async fn open_list(&self, server: &Server) -> anyhow::Result<()> {
        self.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
        self.until("return !document.body.innerText.includes('The model is on its way')").await
    }

    /// Puts a list in the field of the page and asks for its ranking.
    pub async fn rank_list(&self, list: &str) -> anyhow::Result<()> {
        let list = serde_json::to_string(list)?;
        let set = format!(
            "const field = document.querySelector('#shapes');
             field.value = {list};
             field.dispatchEvent(new Event('input', {{ bubbles: true }}));"
        );
        self.script::<()>(&set).await?;
        self.press("document.querySelector('form.card .button.primary')").await
    }

    /// Presses a button beside the progress of the list.
    pub async fn press_in_list(&self, text: &str) -> anyhow::Result<()> {
        let button = format!(
            "[...document.querySelectorAll('[data-testid=list-progress] button')]
                .find((one) => one.innerText === '{text}')"
        );
        self.press(&button).await
    }
}
