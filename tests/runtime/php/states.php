<?php
// SPDX-License-Identifier: LGPL-2.1-or-later
// states.php STATE: says what debug_backtrace() tells it as one line of JSON, and waits where it is, in wait_here().
// "list" as STATE: says which there are.
namespace Demo;

function wait_here()
{
    $calls = [];
    foreach (\debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS) as $call)
        $calls[] = [($call['class'] ?? '') . ($call['type'] ?? '') . $call['function'],
                    $call['file'] ?? null, $call['line'] ?? null];
    echo json_encode($calls), "\n";
    flush(); sleep(3600);
}

class A
{
    public $waits = false;
    function method() { $this->inner(); }
    private function inner() { self::fixed(); }
    static function fixed() { wait_here(); }
    function __toString(): string { wait_here(); return ''; }
    function __get($name) { wait_here(); }
    function __invoke($argument) { wait_here(); }
    function __destruct() { if ($this->waits) wait_here(); }
    function __call($name, $arguments) { wait_here(); }
    static function __callStatic($name, $arguments) { wait_here(); }
}

trait Shared { function shared() { wait_here(); } }
class B extends A { use Shared; }

function numbers() { yield 1; wait_here(); yield 2; }
function delegates() { yield from numbers(); }
function delegates_again() { yield from delegates(); }
function deep($n) { if ($n) return deep($n - 1); wait_here(); }
function größe() { wait_here(); }

function written($code)
{
    $path = tempnam(sys_get_temp_dir(), 'stacksnap');
    file_put_contents($path, $code);
    register_shutdown_function('unlink', $path);
    return $path;
}

$states = [
    'plain' => function () { wait_here(); },
    'method' => function () { (new A)->method(); },
    'static' => function () { A::fixed(); },
    'closure' => function () { $f = function () { $g = function () { wait_here(); }; $g(); }; $f(); },
    'arrow' => function () {
        if (\PHP_VERSION_ID < 70400) wait_here(); // which cannot even read the next line's code
        include written("<?php\n\$f = fn() => \\Demo\\deep(1);\n\n\$f();\n");
    },
    'array_map' => function () { array_map(function ($x) { wait_here(); }, [1]); },
    'by_name' => function () { array_map('Demo\wait_here', [1]); },
    'usort' => function () { $a = [2, 1]; usort($a, function ($x, $y) { wait_here(); }); },
    'generator' => function () { foreach (numbers() as $x); },
    'delegate' => function () { foreach (delegates_again() as $x); },
    'eval' => function () { eval("function made() {\n \\Demo\\wait_here(); }\n\nmade();"); },
    'include' => function () { include written("<?php\n\n\\Demo\\deep(2);\n"); },
    'require_once' => function () { require_once written("<?php\n\n\\Demo\\deep(2);\n"); },
    'tostring' => function () { $s = 'a' . new A; },
    'get' => function () { $a = new A; $a->nothing; },
    'invoke' => function () { $a = new A; $a(1); },
    'destruct' => function () { $a = new A; $a->waits = true; $a = null; },
    'call' => function () { (new A)->unknown(1); },
    'callstatic' => function () { A::unknown(2); },
    'trait' => function () { (new B)->shared(); },
    'fiber' => function () {
        if (!class_exists('Fiber')) wait_here();
        $f = new \Fiber(function () { deep(2); });
        $f->start();
    },
    'deep' => function () { deep(300); },
    'reflection' => function () { (new \ReflectionMethod('Demo\A', 'method'))->invoke(new A); },
    'iterator' => function () {
        foreach (new class implements \IteratorAggregate {
            function getIterator(): \Iterator { yield 1; wait_here(); }
        } as $x);
    },
    'call_user_func' => function () { call_user_func_array([new A, 'method'], []); },
    'anonymous' => function () { $o = new class { function run() { wait_here(); } }; $o->run(); },
    'letters' => function () { größe(); },
];

if ($argv[1] == 'list') {
    echo implode(' ', array_keys($states)), "\n";
    exit;
}
$states[$argv[1]]();
