// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads that wait for locks of parking_lot, and say so as truth.h tells. They sleep on a word of their own, so
// names alone tell what for; nobody keeps an owner.
use parking_lot::{Condvar, Mutex, Once, RwLock};
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, process, thread};

static MUTEX: Mutex<u32> = parking_lot::const_mutex(0);
static READ: RwLock<u32> = parking_lot::const_rwlock(0);
static WRITTEN: RwLock<u32> = parking_lot::const_rwlock(0);
static CONDITION: (Mutex<u32>, Condvar) = (parking_lot::const_mutex(0), Condvar::new());
static ONCE: Once = Once::new();

type Said = mpsc::Sender<(u32, String)>;

fn own_tid() -> u32 {
    let path = fs::read_link("/proc/thread-self").unwrap();
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn truth(said: &Said, row: &str, rest: &str) {
    let tid = own_tid();
    let line = format!("{{'row':'parking.{}','pid':{},'tid':{},{}}}", row, process::id(), tid, rest);
    said.send((tid, line.replace('\'', "\""))).unwrap();
}

fn rest(said: &Said) -> ! {
    truth(said, "holder", "'kind':'sleep'");
    loop {
        thread::sleep(Duration::from_secs(3000));
    }
}

// Each in a thread of its own, in this order; the next one begins when it has said what it is about to do.
const ACTS: [fn(Said); 10] = [
    |said| { let _guard = MUTEX.lock(); rest(&said) },
    |said| { let _guard = WRITTEN.write(); rest(&said) },
    |said| { let _guard = READ.read(); rest(&said) },
    |said| { ONCE.call_once(|| { rest(&said); }) },
    |said| { truth(&said, "mutex", "'kind':'mutex','variant':'parking_lot','owner':0"); drop(MUTEX.lock()) },
    |said| { truth(&said, "read", "'kind':'rwlock','mode':'read','owner':0"); drop(WRITTEN.read()) },
    |said| { truth(&said, "write", "'kind':'rwlock','mode':'write','owner':0"); drop(WRITTEN.write()) },
    |said| { truth(&said, "write-for-reader", "'kind':'rwlock','mode':'write','owner':0"); drop(READ.write()) },
    |said| {
        let mut guard = CONDITION.0.lock();
        truth(&said, "condition", "'kind':'condition','owner':0");
        CONDITION.1.wait(&mut guard)
    },
    |said| { truth(&said, "once", "'kind':'once'"); ONCE.call_once(|| ()) },
];

fn main() {
    let (sender, receiver) = mpsc::channel();
    let mut lines = Vec::new();
    for act in ACTS {
        let sender = sender.clone();
        thread::spawn(move || act(sender));
        lines.push(receiver.recv().unwrap());
    }
    for (tid, _) in &lines {
        let path = format!("/proc/self/task/{}/syscall", tid);
        while fs::read_to_string(&path).unwrap_or_default().starts_with("running") {
            thread::yield_now();
        }
    }
    println!("ready {} truth={}", process::id(), lines.len());
    for (_, line) in &lines {
        println!("{}", line);
    }
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
