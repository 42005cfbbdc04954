// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads that wait in many ways, each below functions of the standard library. "ready PID" when all do.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::{thread, time::Duration};

static STARTED: AtomicU32 = AtomicU32::new(0);

fn started() {
    STARTED.fetch_add(1, Ordering::SeqCst);
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.into()).spawn(run).unwrap();
}

// Frames of 37 words and more, which keep texts in a tree.
#[inline(never)]
fn descends(n: u32, names: &mut BTreeMap<u32, String>, from: &mpsc::Receiver<u32>) -> u32 {
    let mut room = [0u32; 37];
    room[(n % 37) as usize] = n;
    names.insert(n, format!("{:?}", room));
    let got = if n == 0 {
        started();
        from.recv().unwrap()
    } else {
        descends(n - 1, names, from)
    };
    got + room[(got % 37) as usize]
}

fn main() {
    let (sender, receiver) = mpsc::channel::<u32>();
    let lock = Arc::new(Mutex::new(0));
    let held = lock.lock().unwrap();
    let (other, pair) = (lock.clone(), (Mutex::new(false), Condvar::new()));
    spawn("lock", move || {
        started();
        println!("{}", *other.lock().unwrap());
    });
    spawn("condition", move || {
        let mut is_true = pair.0.lock().unwrap();
        started();
        while !*is_true {
            is_true = pair.1.wait(is_true).unwrap();
        }
    });
    spawn("sort", || {
        let mut list: Vec<u32> = (0..100).rev().collect();
        list.sort_by_key(|n| {
            if *n == 50 {
                started();
                thread::park();
            }
            *n
        });
    });
    spawn("receive", move || {
        println!("{}", descends(12, &mut BTreeMap::new(), &receiver));
    });
    spawn("ready", || {
        while STARTED.load(Ordering::SeqCst) < 5 {
            thread::sleep(Duration::from_millis(1));
        }
        println!("ready {}", std::process::id());
        std::io::stdin().lines().for_each(drop);
        std::process::exit(0);
    });
    let all: Vec<u32> = (0..3)
        .map(|n| {
            if n == 2 {
                started();
                thread::sleep(Duration::from_secs(3600));
            }
            n
        })
        .collect();
    println!("{:?} {}", all, *held);
    sender.send(1).unwrap();
}
