//! Concurrent single calls share one statement (P7).
//!
//! The first caller becomes the flusher: it runs the statement in its own future, for itself and
//! for whoever came while the last one was in flight. A lone call waits for nobody. There is no
//! task, so nothing outlives its caller's runtime; a flusher that is dropped in flight hands its
//! statement's callers to the next flusher, which sends them again: every call shared this way is
//! safe to repeat.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, Semaphore};

use crate::Result;

/// Combines calls of one kind on one handle: `A` goes in, `B` comes out. Bound to no runtime.
#[derive(Debug)]
pub struct Sharing<A, B> {
    line: Mutex<VecDeque<Arc<Call<A, B>>>>,
    /// One statement at a time: who holds it flushes.
    turn: Semaphore,
    most: usize,
}

/// One caller's call.
#[derive(Debug)]
struct Call<A, B> {
    input: A,
    answer: Mutex<Answer<B>>,
    answered: Notify,
}

#[derive(Debug)]
enum Answer<B> {
    Waiting,
    Ready(B),
    /// Its caller took it, or was dropped.
    Gone,
}

/// An answer that can say that there was none.
pub trait Unanswered {
    /// The driver answered fewer calls than it got.
    fn unanswered() -> Self;
}

impl<T> Unanswered for Result<T> {
    fn unanswered() -> Self {
        Err(crate::ext::unanswered("enqueue"))
    }
}

impl<A: Clone, B: Unanswered> Sharing<A, B> {
    /// Statements of up to `most` calls.
    pub fn new(most: usize) -> Self {
        Self { line: Mutex::default(), turn: Semaphore::new(1), most: most.max(1) }
    }

    /// One call. `statement` runs many inputs and answers one by one, in order; it is called for
    /// this caller's input or with others' beside it.
    ///
    /// # Cancel safety
    /// A dropped call may still happen: others may have taken it along. Dropped while its
    /// statement is in flight, the others' calls are sent again by one of them.
    pub async fn call<F>(&self, input: A, statement: impl Fn(Vec<A>) -> F) -> B
    where
        F: Future<Output = Vec<B>>,
    {
        let call =
            Arc::new(Call { input, answer: Mutex::new(Answer::Waiting), answered: Notify::new() });
        lock(&self.line).push_back(call.clone());
        let _leaves = Leaves { call: &call };
        loop {
            tokio::select! {
                biased;
                () = call.answered.notified() => {}
                turn = self.turn.acquire() => {
                    // Answered by the statement that just ended, or not: only then flush.
                    if call.is_waiting() {
                        self.flush(&statement).await;
                    }
                    drop(turn);
                }
            }
            if let Answer::Ready(answer) = call.swap(Answer::Gone, Answer::Waiting) {
                return answer;
            }
        }
    }

    /// Runs one statement for the head of the line. On every way out, also when dropped, calls
    /// without an answer are back at the head.
    async fn flush<F: Future<Output = Vec<B>>>(&self, statement: &impl Fn(Vec<A>) -> F) {
        let mut flight = Flight { sharing: self, calls: Vec::new() };
        {
            let mut line = lock(&self.line);
            let waiting = std::iter::from_fn(|| line.pop_front()).filter(|call| call.is_waiting());
            flight.calls = waiting.take(self.most).collect();
        }
        let inputs = flight.calls.iter().map(|call| call.input.clone()).collect();
        // Sent again, a call without an answer would come back without one for ever.
        let answers = statement(inputs).await.into_iter().map(Some);
        let answers = answers.chain(std::iter::repeat_with(|| None));
        for (call, answer) in flight.calls.iter().zip(answers) {
            let answer = answer.unwrap_or_else(B::unanswered);
            if call.is_waiting() {
                *lock(&call.answer) = Answer::Ready(answer);
            }
            call.answered.notify_one();
        }
    }
}

impl<A, B> Call<A, B> {
    fn is_waiting(&self) -> bool {
        matches!(*lock(&self.answer), Answer::Waiting)
    }

    /// Takes the answer if there is one, leaving `taken`; else leaves `waiting`.
    fn swap(&self, taken: Answer<B>, waiting: Answer<B>) -> Answer<B> {
        let mut answer = lock(&self.answer);
        let next = if matches!(*answer, Answer::Ready(_)) { taken } else { waiting };
        std::mem::replace(&mut *answer, next)
    }
}

/// A caller that leaves is not flushed for.
struct Leaves<'a, A, B> {
    call: &'a Call<A, B>,
}

impl<A, B> Drop for Leaves<'_, A, B> {
    fn drop(&mut self) {
        *lock(&self.call.answer) = Answer::Gone;
    }
}

/// The calls of a statement in flight.
struct Flight<'a, A, B> {
    sharing: &'a Sharing<A, B>,
    calls: Vec<Arc<Call<A, B>>>,
}

impl<A, B> Drop for Flight<'_, A, B> {
    fn drop(&mut self) {
        let mut line = lock(&self.sharing.line);
        for call in self.calls.drain(..).rev().filter(|call| call.is_waiting()) {
            line.push_front(call);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way, so what they hold is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    type Numbers = Sharing<u32, Result<u32>>;

    fn refused() -> crate::Error {
        crate::Error::new(crate::ErrorKind::Refused, "enqueue", "13")
    }

    /// Counts statements, refuses 13, takes a moment.
    async fn statement(count: &AtomicUsize, inputs: Vec<u32>) -> Vec<Result<u32>> {
        count.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        inputs.into_iter().map(|n| if n == 13 { Err(refused()) } else { Ok(n * 2) }).collect()
    }

    #[tokio::test]
    async fn concurrent_calls_share_and_each_has_its_own_answer() {
        let (sharing, count) = (Arc::new(Numbers::new(1000)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..50).map(|number| {
            let (sharing, count) = (sharing.clone(), count.clone());
            tokio::spawn(async move { sharing.call(number, |all| statement(&count, all)).await })
        });
        for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            let number = number as u32;
            let expected = (number != 13).then_some(number * 2);
            assert_eq!(call.await.unwrap().ok(), expected);
        }
        assert!(count.load(Ordering::SeqCst) <= 3, "a lone first one, then all others");
    }

    #[test]
    fn two_runtimes_one_after_the_other() {
        let (sharing, count) = (Numbers::new(10), AtomicUsize::new(0));
        for number in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let answer =
                runtime.unwrap().block_on(sharing.call(number, |all| statement(&count, all)));
            assert_eq!(answer.unwrap(), number * 2);
        }
    }

    #[tokio::test]
    async fn a_flusher_dropped_in_flight_harms_nobody() {
        let (sharing, count) = (Arc::new(Numbers::new(1000)), Arc::new(AtomicUsize::new(0)));
        let call = |number| {
            let (sharing, count) = (sharing.clone(), count.clone());
            tokio::spawn(async move { sharing.call(number, |all| statement(&count, all)).await })
        };
        for _ in 0..20 {
            let first = call(0);
            tokio::task::yield_now().await;
            let second: Vec<_> = (1..10).map(call).collect();
            // The first flushes alone; one of the second then flushes for all of them.
            first.await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
            second[0].abort();
            for (index, call) in second.into_iter().enumerate().skip(1) {
                assert_eq!(call.await.unwrap().unwrap(), (index as u32 + 1) * 2);
            }
        }
        assert!(lock(&sharing.line).is_empty());
    }

    #[tokio::test]
    async fn a_call_without_an_answer_fails() {
        let sharing = Numbers::new(10);
        let answer = sharing.call(1, |_| async { Vec::new() }).await;
        assert_eq!(answer.unwrap_err().kind(), crate::ErrorKind::Internal);
    }

    #[tokio::test]
    async fn at_most_so_many_per_statement() {
        let (sharing, count) = (Arc::new(Numbers::new(10)), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..100)
            .filter(|n| *n != 13)
            .map(|number| {
                let (sharing, count) = (sharing.clone(), count.clone());
                let largest = move |all: Vec<u32>| {
                    assert!(all.len() <= 10);
                    let count = count.clone();
                    async move { statement(&count, all).await }
                };
                tokio::spawn(async move { sharing.call(number, largest).await })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap().is_ok());
        }
        assert!(count.load(Ordering::SeqCst) >= 10);
    }
}
