//! Wake-ups (N1): at once inside a handle, by a change stream across handles and processes.
//!
//! What is put in line counts up one small document of its handle and queue, outside of everybody's
//! transaction, and says there in which lines; who hears of it has to look for nothing. The first news
//! goes at once; where more of it follows at its heels, the handle is silent for longer each time, up to
//! 50 ms. Each handle that watches opens one stream on that one collection; every stream reads
//! the whole of the set's log. An event comes once a majority has the write. After a gap the stream is
//! opened again, and everybody who watches is woken once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::StreamExt;
use jobs_core::wake::{Bell, Watch};
use mongodb::{
    bson::{Bson, Document, doc},
    change_stream::event::ChangeStreamEvent,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use uuid::Uuid;

use crate::{
    db::Db,
    error::Fault,
    frontier::{Frontier, Line},
    row::{at, text},
};

/// Between two notes of one handle on one queue: after a quiet time, and in a flood. Rejected: 50 ms
/// always, by which a job that follows another starts 25 ms late on average in another process.
const SILENCE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// Lines that one note says; of more than that everybody looks for himself.
const LINES: usize = 64;
/// How long the stream may take to open.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to open it: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What is put in line in a queue: its lines and from when on, or that it has to be looked for.
type News = Option<BTreeMap<Line, i64>>;

/// What a handle's calls, its notes and its stream share.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    sender: Arc<Sender>,
    listening: Mutex<Weak<Listening>>,
}

/// The half that tells; handles of one store in one process have one.
#[derive(Debug)]
struct Sender {
    bell: Bell,
    /// Tells a handle's own notes from others'.
    own: String,
    outbox: Mutex<Outbox>,
    /// There is something new in it.
    put: Notify,
}

#[derive(Debug, Default)]
struct Outbox {
    queues: BTreeMap<String, News>,
    /// Of the queues that a note was sent on lately, when, and for how long the next one waits.
    sent: HashMap<String, Sent>,
    sending: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    silence: Duration,
}

impl Sent {
    /// A note goes now. One that follows soon after the last silence shows a flood.
    fn after(last: Option<&Self>, now: Instant) -> Self {
        let flood = last.filter(|last| last.is_lately(now));
        let silence = flood.map_or(SILENCE.0, |last| (2 * last.silence).min(SILENCE.1));
        Self { at: now, silence }
    }

    fn until(&self) -> Instant {
        self.at + self.silence
    }

    fn is_lately(&self, now: Instant) -> bool {
        now < self.at + 2 * self.silence
    }
}

/// The stream's task; it ends with the last watcher.
#[derive(Debug)]
struct Listening {
    task: JoinHandle<()>,
    heard: watch::Receiver<bool>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            bell: Bell::default(),
            own: Uuid::new_v4().simple().to_string(),
            outbox: Mutex::default(),
            put: Notify::new(),
        }
    }
}

impl Sender {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends notes until there are none left.
    async fn run(&self, db: &Db) {
        loop {
            let (ready, next) = {
                let mut outbox = self.outbox();
                let now = Instant::now();
                outbox.sent.retain(|_, sent| sent.is_lately(now));
                if outbox.queues.is_empty() {
                    outbox.sending = false;
                    return;
                }
                let Outbox { queues, sent, .. } = &mut *outbox;
                let silent =
                    |queue: &String| sent.get(queue).is_some_and(|sent| now < sent.until());
                let mut ready = std::mem::take(queues);
                *queues = ready.extract_if(.., |queue, _| silent(queue)).collect();
                for queue in ready.keys() {
                    let sending = Sent::after(sent.get(queue), now);
                    sent.insert(queue.clone(), sending);
                }
                let next = queues.keys().filter_map(|queue| sent.get(queue)).map(Sent::until).min();
                (ready, next)
            };
            if !ready.is_empty() {
                self.send(db, ready).await;
            } else if let Some(next) = next {
                let wait = sleep_until(next);
                tokio::select! { () = wait => {}, () = self.put.notified() => {} }
            }
        }
    }

    async fn send(&self, db: &Db, news: BTreeMap<String, News>) {
        // A document of the handle's own: what another counted up in the meantime hides nothing.
        let note = |(queue, lines): (String, News)| {
            let lines = lines.filter(|lines| lines.len() <= LINES);
            let lines = lines.map_or(Bson::Null, |lines| {
                let line = |(line, due): (Line, i64)| doc! { "l": line.stored(), "d": at(due) };
                Bson::Array(lines.into_iter().map(line).map(Bson::Document).collect())
            });
            let count = doc! {
                "$inc": { "count": 1_i64 }, "$currentDate": { "at": true },
                // A field that would not change is not told.
                "$set": { "news": { "of": Uuid::new_v4().simple().to_string(), "lines": lines } },
            };
            doc! { "q": { "_id": format!("{queue}/{}", self.own) }, "u": count, "upsert": true }
        };
        let updates: Vec<Document> = news.into_iter().map(note).collect();
        let update = doc! {
            "update": db.name("wake"), "updates": updates, "ordered": false,
            // Streams see what a majority has on disk: without this a lone note waits for the next
            // flush of the journal, 100 ms apart.
            "writeConcern": { "w": 1, "j": true },
        };
        // A case of the suite cuts the calls' connections, not this one's.
        let sent = async {
            db.database()?.run_command(update).await?;
            Ok::<_, Fault>(())
        };
        match timeout(PATIENCE, sent).await {
            Ok(Ok(())) => {}
            lost => tracing::debug!(?lost, "a wake-up is lost; polling finds the jobs"),
        }
    }
}

impl Wake {
    /// For another handle of the same process, which listens by itself.
    pub fn another(&self) -> Self {
        Self { sender: self.sender.clone(), listening: Mutex::default() }
    }

    /// Wakes whoever watches these queues, here at once and elsewhere soon. Nothing is lost but time
    /// when the runtime ends before that.
    pub fn tell(&self, db: &Arc<Db>, news: BTreeMap<String, News>) {
        let mut outbox = self.sender.outbox();
        for (queue, lines) in news {
            self.sender.bell.ring(&queue);
            let told = outbox.queues.entry(queue).or_insert_with(|| Some(BTreeMap::new()));
            match (&mut *told, lines) {
                (Some(told), Some(lines)) if told.len() <= LINES => {
                    for (line, due) in lines {
                        let first = told.entry(line).or_insert(due);
                        *first = due.min(*first);
                    }
                }
                _ => *told = None,
            }
        }
        self.sender.put.notify_one();
        if outbox.sending || outbox.queues.is_empty() {
            return;
        }
        outbox.sending = true;
        let sending = Sending(self.sender.clone(), false);
        let db = db.clone();
        tokio::spawn(async move {
            sending.0.run(&db).await;
            // It said so itself, in the instant in which nothing was left.
            Sending::end(sending);
        });
    }

    /// A wake-up for `queues`, listening already.
    pub async fn watch(&self, db: &Arc<Db>, frontier: &Arc<Frontier>, queues: &[String]) -> Watch {
        let receivers = self.sender.bell.watch(queues);
        if !db.options.listen {
            return Watch::new(receivers, None);
        }
        let listening = {
            let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
            match listening.upgrade().filter(|listening| !listening.task.is_finished()) {
                Some(running) => running,
                None => {
                    let (ready, heard) = watch::channel(false);
                    let listener = listen(self.sender.clone(), db.clone(), frontier.clone(), ready);
                    let started = Arc::new(Listening { task: tokio::spawn(listener), heard });
                    *listening = Arc::downgrade(&started);
                    started
                }
            }
        };
        // What is pushed from now on is heard; where that fails, polling finds it.
        let mut heard = listening.heard.clone();
        timeout(PATIENCE, heard.wait_for(|heard| *heard)).await.ok();
        Watch::new(receivers, Some(listening))
    }
}

/// Lets the next note begin another task, where the runtime of this one ended before it.
struct Sending(Arc<Sender>, bool);

impl Sending {
    fn end(mut self) {
        self.1 = true;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.1 {
            self.0.outbox().sending = false;
        }
    }
}

async fn listen(
    sender: Arc<Sender>,
    db: Arc<Db>,
    frontier: Arc<Frontier>,
    ready: watch::Sender<bool>,
) {
    let mut wait = AGAIN.0;
    loop {
        let heard = async {
            let notes = db.database()?.collection::<Document>(&db.name("wake"));
            let pushed = doc! { "$match": { "operationType": { "$ne": "delete" } } };
            let stream = notes.watch().pipeline([pushed]);
            let stream = timeout(PATIENCE, async { stream.await }).await;
            let mut stream = stream.map_err(|_| crate::error::LATE)??;
            wait = AGAIN.0;
            frontier.look(None);
            if *ready.borrow() {
                sender.bell.ring_all();
            }
            ready.send_replace(true);
            // The crate opens it again where it broke, after the last event that it had.
            while let Some(event) = stream.next().await {
                let event = event?;
                let key = event.document_key.as_ref().and_then(|key| text(key, "_id"));
                let Some((queue, by)) = key.as_deref().and_then(|key| key.split_once('/')) else {
                    continue;
                };
                if by != sender.own {
                    match lines(&event) {
                        Some(lines) => frontier.note(lines.iter().map(|(line, due)| (line, *due))),
                        None => frontier.look(Some(queue)),
                    }
                    sender.bell.ring(queue);
                }
            }
            Ok::<_, Fault>(())
        };
        if let Err(fault) = heard.await {
            tracing::debug!(?fault, "not listening for wake-ups; polling goes on");
        }
        frontier.look(None);
        sender.bell.ring_all();
        sleep(wait).await;
        wait = (2 * wait).min(AGAIN.1);
    }
}

/// What a note says; nothing where it has to be looked for.
fn lines(event: &ChangeStreamEvent<Document>) -> Option<Vec<(Line, i64)>> {
    let changed = event.update_description.as_ref().map(|update| &update.updated_fields);
    let fields = changed.or(event.full_document.as_ref())?;
    let lines = fields.get_document("news").ok()?.get_array("lines").ok()?.iter();
    let line = |line: &Bson| {
        let line = line.as_document()?;
        Some((Line::read(line.get_str("l").ok()?)?, crate::row::date(line, "d")?))
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_every_50_ms_and_single_news_at_once() {
        let begin = Instant::now();
        let mut last = Sent::after(None, begin);
        let mut silences = vec![last.silence.as_millis()];
        // There is always more to say.
        for _ in 0..5 {
            last = Sent::after(Some(&last), last.until());
            silences.push(last.silence.as_millis());
        }
        assert_eq!(silences, [5, 10, 20, 40, 50, 50]);
        for every in [20, 100] {
            let next = Sent::after(None, begin);
            let at = next.at + Duration::from_millis(every);
            assert_eq!(Sent::after(Some(&next), at).silence, SILENCE.0, "one every {every} ms");
        }
    }
}
