//! Announcements (A4), all in the first shard.

use jobs_core::{Result, queue::Worker};

use crate::{Redis, error::Fault, script::script};

script!(ANNOUNCE, ALWAYS, "announce.lua");

/// As it is stored: label, queues, names, slots, busy, stuck.
pub(super) type Stored = (String, Vec<String>, Vec<String>, u32, u32, u32);

/// It lives, or says goodbye.
pub(crate) async fn one(store: &Redis, worker: &Worker) -> Result<()> {
    let stored: Stored = (
        worker.label.clone(),
        worker.queues.clone(),
        worker.names.clone(),
        worker.slots,
        worker.busy,
        worker.stuck,
    );
    // Texts and numbers always have a JSON form.
    let text = serde_json::to_string(&stored).unwrap_or_default();
    let text = if worker.leaving { String::new() } else { text };
    let announce = async {
        let arguments = vec![worker.id.to_string().into(), text.into()];
        store.db.run(0, &ANNOUNCE, arguments).await?;
        Ok::<_, Fault>(())
    };
    store.db.within("announce", announce).await
}
