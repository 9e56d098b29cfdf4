//! The filter of the list of jobs: from the URL, to the store, and back into URLs.

use jobs_core::{
    JobId, State,
    names::{is_name, is_tenant},
    view::{Cursor, List},
};

use crate::fields::Fields;

/// Jobs of a page.
const PAGE: u64 = 50;
/// Most of a page of HTML, and of one of JSON.
pub(crate) const MOST: [u64; 2] = [200, 1000];

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    pub state: Option<State>,
    pub queue: Option<String>,
    /// An operator's; a tenant's own needs none.
    pub tenant: Option<String>,
    pub name: Option<String>,
    pub id: Option<JobId>,
    pub cause: Option<String>,
    pub after: Option<Cursor>,
    pub page: u64,
    /// What was typed and can match nothing.
    pub wrong: Vec<&'static str>,
}

impl Filter {
    pub fn of(fields: &Fields, is_operator: bool, most: u64) -> Self {
        let mut filter = Self {
            state: fields.parsed("state"),
            queue: fields.search("queue"),
            tenant: fields.search("tenant").filter(|_| is_operator),
            name: fields.search("name"),
            id: fields.parsed("id"),
            cause: fields.search("cause"),
            after: fields.parsed("after"),
            page: fields.number("page", 1, most, PAGE),
            wrong: Vec::new(),
        };
        let named = |text: &Option<String>, is: fn(&str) -> bool| {
            text.as_deref().is_some_and(|text| !is(text))
        };
        for (what, wrong) in [
            ("state", filter.state.is_none() && fields.text("state").is_some()),
            ("queue", named(&filter.queue, is_name)),
            ("tenant", named(&filter.tenant, is_tenant)),
            ("name", named(&filter.name, is_name)),
            ("id", filter.id.is_none() && fields.text("id").is_some()),
            ("place to go on from", filter.after.is_none() && fields.text("after").is_some()),
        ] {
            if wrong {
                filter.wrong.push(what);
            }
        }
        filter
    }

    /// What the store is asked; `None` where nothing can match.
    pub fn list(&self) -> Option<List> {
        self.wrong.is_empty().then(|| List {
            queue: self.queue.clone(),
            tenant: self.tenant.clone(),
            state: self.state,
            name: self.name.clone(),
            id: self.id,
            cause: self.cause.clone(),
            page: usize::try_from(self.page).unwrap_or(usize::MAX),
            after: self.after.clone(),
        })
    }

    /// Does it leave any job out?
    pub fn is_any(&self) -> bool {
        let first = Self { after: None, page: 0, ..self.clone() };
        first != Self::default()
    }

    /// With another state, from the start.
    pub fn with_state(&self, state: Option<State>) -> Self {
        Self { state, after: None, ..self.clone() }
    }

    /// The next page.
    pub fn after(&self, cursor: Option<&Cursor>) -> Self {
        Self { after: cursor.cloned(), ..self.clone() }
    }

    /// As it stands in a URL, with its question mark; nothing for all jobs.
    pub fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                query.append_pair(name, &value);
            }
        };
        add("state", self.state.map(|state| state.to_string()));
        add("queue", self.queue.clone());
        add("tenant", self.tenant.clone());
        add("name", self.name.clone());
        add("id", self.id.map(|id| id.to_string()));
        add("cause", self.cause.clone());
        add(
            "page",
            Some(self.page).filter(|page| *page != PAGE && *page != 0).map(|page| page.to_string()),
        );
        add("after", self.after.as_ref().map(ToString::to_string));
        let query = query.finish();
        if query.is_empty() { query } else { format!("?{query}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_the_state() {
        let id = JobId::new();
        let query = format!(
            "state=parked&queue=mail&tenant=acme&name=mail.send&id={id}&cause=%3C%26+x&page=7&after=acme%2F{id}"
        );
        let filter = Filter::of(&Fields::parse(query.as_bytes()), true, 200);
        assert_eq!(filter.query(), format!("?{query}"));
        assert!(filter.list().is_some() && filter.is_any());
        assert_eq!(Filter::of(&Fields::parse(query.as_bytes()), false, 200).tenant, None);
        let all = Filter::of(&Fields::default(), true, 200);
        assert_eq!((all.query(), all.is_any()), (String::new(), false));
    }

    #[test]
    fn what_can_match_nothing_is_told_and_no_store_is_asked() {
        for bad in
            ["state=Ready", "queue=A", "tenant=a.b", "name=%00", "id=7", "after=x", "queue=%F0%9F"]
        {
            let filter = Filter::of(&Fields::parse(bad.as_bytes()), true, 200);
            assert_eq!((filter.wrong.len(), filter.list().is_none()), (1, true), "{bad}");
        }
        let nul = Filter::of(&Fields::parse(b"cause=%00%FF"), true, 200);
        assert_eq!(nul.cause.as_deref(), Some("\u{fffd}\u{fffd}"));
    }
}
