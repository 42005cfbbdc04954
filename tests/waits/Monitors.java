// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads that wait for monitors, two of them for each other's, and for locks of java.util.concurrent;
// says so as truth.h tells.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

public class Monitors {
    static final List<String> lines = new ArrayList<>();
    static final Object held = new Object(), one = new Object(), other = new Object(), idle = new Object();
    static final ReentrantLock lock = new ReentrantLock();

    static String tid() throws Exception {
        return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
    }

    static synchronized void truth(String row, String tid, String rest) {
        lines.add(("{'row':'java." + row + "','pid':" + ProcessHandle.current().pid() + ",'tid':" + tid + "," + rest + "}")
            .replace('\'', '"'));
    }

    interface Act { void run() throws Exception; }

    static Thread start(String name, Act act) {
        Thread thread = new Thread(() -> { try { act.run(); } catch (Exception e) { throw new RuntimeException(e); } }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void until(Thread thread, Thread.State state) {
        while (thread.getState() != state)
            Thread.yield();
    }

    static String monitor(String owner) {
        return "'kind':['monitor','condition'],'owner':[0," + owner + "]";
    }

    public static void main(String[] arguments) throws Exception {
        String[] tids = new String[3];
        CountDownLatch both = new CountDownLatch(2), taken = new CountDownLatch(1);
        Thread holder = start("mon-holder", () -> {
            synchronized (held) {
                tids[0] = tid();
                lock.lock();
                taken.countDown();
                Thread.sleep(3000000);
            }
        });
        taken.await();
        Thread wants = start("mon-wants", () -> {
            truth("monitor", tid(), monitor(tids[0]));
            synchronized (held) { }
        });
        Thread parked = start("mon-park", () -> {
            truth("lock", tid(), "'kind':['condition','park','monitor'],'owner':[0," + tids[0] + "]");
            lock.lock();
        });
        Thread waits = start("mon-waits", () -> {
            synchronized (idle) {
                truth("wait", tid(), "'kind':['condition','monitor'],'owner':0");
                idle.wait();
            }
        });
        Object[] pair = { one, other };
        Thread[] dead = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int own = i;
            dead[i] = start("mon-dead-" + i, () -> {
                synchronized (pair[own]) {
                    tids[1 + own] = tid();
                    both.countDown();
                    both.await();
                    truth("dead", tids[1 + own], monitor(tids[2 - own]));
                    synchronized (pair[1 - own]) { }
                }
            });
        }
        for (Thread thread : new Thread[] { wants, dead[0], dead[1] })
            until(thread, Thread.State.BLOCKED);
        for (Thread thread : new Thread[] { parked, waits })
            until(thread, Thread.State.WAITING);
        until(holder, Thread.State.TIMED_WAITING);
        int first = Integer.parseInt(tids[1]), second = Integer.parseInt(tids[2]);
        lines.add("{\"row\":\"java.dead\",\"deadlock\":[" + Math.min(first, second) + "," + Math.max(first, second) +
            "],\"size\":2,\"behind\":0,\"optional\":true}");
        StringBuilder text = new StringBuilder();
        for (String line : lines)
            text.append(line).append('\n');
        System.out.print("ready " + ProcessHandle.current().pid() + " truth=" + lines.size() + "\n" + text);
        System.out.flush();
        while (System.in.read() >= 0) { }
    }
}
