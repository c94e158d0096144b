<?php
// Prints what the parser in PHP finds in files: RUNTIME=.../lib PARSER=GgufI2s.php php reader.php FILE...
spl_autoload_register(function ($name) { require getenv("RUNTIME") . "/" . strtr($name, "\\", "/") . ".php"; });
require getenv("PARSER");

const LAYOUTS = ["interleave128", "interleave64", "rows1x4", "sequentialMsb", "sequentialLsb", "rowBlocks4"];
const PARTS = ["code", "offset1", "zeroFirst", "twosComplement", "offset2"];
const BLOCKS = ["q20", "q20G128", "pq20", "ptq10", "tq10", "tq20", "iq1Bn", "iq2Bn", "i2Sr"];
const PLAIN = [0 => "asU8", 1 => "asI8", 2 => "asU16", 3 => "asI16", 4 => "asU32", 5 => "asI32", 7 => "asBool"];

function bits(float $number): string
{
    return is_nan($number) ? "nan" : bin2hex(pack("E", $number));
}

function mix(int $before, int $number): int
{
    return ($before * 31 + $number + 1) % 1000003;
}

function text($value): string
{
    switch ($value->kind()) {
        case 6: return bits($value->asF32()->value());
        case 8: return "'" . bin2hex($value->asStr()->text());
        case 9:
            $items = array_map(fn ($each) => " " . text($each), $value->asArr()->items());
            return "[" . $value->asArr()->kind() . implode($items) . "]";
        case 10: return sprintf("%u", $value->asU64()->asU64()); // an integer of PHP has a sign
        case 11: return (string) $value->asI64()->asI64();
        case 12: return bits($value->asF64()->asF64());
        default: return (string) $value->{PLAIN[$value->kind()]}();
    }
}

function lines($file): string
{
    $out = ["file {$file->header()->version()} {$file->alignment()} {$file->dataStart()}"];
    foreach ($file->keyValues() as $pair)
        $out[] = "key " . bin2hex($pair->key()->text()) . " {$pair->kind()} " . text($pair->value());
    foreach ($file->tensorInfos() as $info) {
        $ne = implode(",", $info->ne());
        $out[] = "tensor " . bin2hex($info->name()->text()) . " {$info->kind()} {$info->offset()} $ne";
        if ($tensor = $info->i2s()) {
            $scale = bits($tensor->scale()->value());
            $out[] = "i2s " . bin2hex($tensor->payload()) . " $scale " . bin2hex($tensor->unused());
            foreach (LAYOUTS as $layout) {
                if (($elements = $tensor->$layout()) === null)
                    continue;
                $sum = 0;
                foreach ($elements as $each)
                    foreach (PARTS as $part)
                        $sum = mix($sum, $each->$part());
                $out[] = strtolower($layout) . " $sum";
            }
        }
        foreach (BLOCKS as $name) {
            if (!($tensor = $info->$name()))
                continue;
            $sum = 0;
            $scales = $name === "i2Sr" ? $tensor->scales() : [];
            foreach ($tensor->eachRow() as $row) {
                if (str_starts_with($name, "iq"))
                    $scales[] = $row->scale();
                foreach ($row->blocks() as $block) {
                    if ($name !== "i2Sr" && !str_starts_with($name, "iq"))
                        $scales[] = $block->scale();
                    foreach ($block->weights() as $each)
                        $sum = mix(mix($sum, $each->code()), $each->weight());
                }
            }
            $out[] = strtolower($name) . " $sum " . implode(",", array_map(fn ($each) => bits($each->value()), $scales));
        }
    }
    return implode("\n", [...$out, "end"]);
}

foreach (array_slice($argv, 1) as $path) {
    try {
        print lines(GgufI2s::fromFile($path)->file()) . "\n";
    } catch (Throwable $error) {
        print "error " . get_class($error) . "\n";
    }
}
