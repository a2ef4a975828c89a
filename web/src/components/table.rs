//! Tables in boxes, which scroll if the window is too narrow, and lists of facts and tags.

use leptos::prelude::*;

/// The head of a column.
pub(crate) struct Head {
    text: String,
    why: Option<String>,
    class: String,
}

/// The head of a column of texts.
pub(crate) fn head(text: impl Into<String>) -> Head {
    Head { text: text.into(), why: None, class: String::new() }
}

/// The head of a column of numbers.
pub(crate) fn num(text: impl Into<String>) -> Head {
    head(text).class("num")
}

impl Head {
    /// Adds an explanation, which stands in the legend below the table.
    pub(crate) fn why(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// Leaves the column out of narrow windows.
    pub(crate) fn roomy(self) -> Self {
        self.class("roomy")
    }

    pub(crate) fn class(mut self, class: &str) -> Self {
        if !self.class.is_empty() {
            self.class.push(' ');
        }
        self.class.push_str(class);
        self
    }

    fn cell(&self) -> impl IntoView + use<> {
        let class = Some(self.class.clone()).filter(|class| !class.is_empty());
        view! { <th class=class>{self.text.clone()}</th> }
    }
}

/// What the columns of a table mean.
pub(crate) fn legend(columns: impl IntoIterator<Item = (String, String)>) -> AnyView {
    let columns = columns.into_iter().map(|(name, why)| view! { <div><dt>{name}</dt><dd>{why}</dd></div> });
    view! {
        <details class="key">
            <summary>"What the columns mean"</summary>
            <dl>{columns.collect_view()}</dl>
        </details>
    }
    .into_any()
}

/// A table without its rows.
pub(crate) struct Table {
    heads: Vec<Head>,
    boxed: &'static str,
    testid: Option<&'static str>,
}

pub(crate) fn table(heads: impl Into<Vec<Head>>) -> Table {
    Table { heads: heads.into(), boxed: "table-box", testid: None }
}

impl Table {
    /// The class of the box around the table, in place of the usual one.
    pub(crate) fn boxed(self, class: &'static str) -> Self {
        Self { boxed: class, ..self }
    }

    /// The name by which tests find the table.
    pub(crate) fn testid(self, name: &'static str) -> Self {
        Self { testid: Some(name), ..self }
    }

    pub(crate) fn rows(self, rows: impl IntoView) -> AnyView {
        let rows = rows.into_any();
        self.bodies(view! { <tbody>{rows}</tbody> })
    }

    /// The whole table, whose rows are in groups.
    pub(crate) fn bodies(self, bodies: impl IntoView) -> AnyView {
        let heads = self.heads.iter().map(Head::cell).collect_view();
        let known: Vec<_> = self.heads.into_iter().filter_map(|head| Some((head.text, head.why?))).collect();
        view! {
            <div class=self.boxed tabindex="0">
                <table data-testid=self.testid>
                    <thead><tr>{heads}</tr></thead>
                    {bodies.into_any()}
                </table>
            </div>
            {(!known.is_empty()).then(|| legend(known))}
        }
        .into_any()
    }

    /// The table below a chart that shows the same.
    pub(crate) fn below_chart(self, rows: impl IntoView) -> AnyView {
        view! { <details><summary>"The same as a table"</summary>{self.rows(rows)}</details> }.into_any()
    }
}

/// Facts with their names.
pub(crate) fn facts(rows: impl IntoIterator<Item = (&'static str, String)>) -> AnyView {
    let rows = rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! { <dl class="facts">{rows.collect_view()}</dl> }.into_any()
}

/// Short facts that need no names.
pub(crate) fn tag_row(tags: impl IntoIterator<Item = String>) -> AnyView {
    let tags = tags.into_iter().map(|tag| view! { <span class="tag">{tag}</span> });
    view! { <div class="tags">{tags.collect_view()}</div> }.into_any()
}
