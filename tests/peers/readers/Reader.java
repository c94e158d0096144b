// Prints what the parser in Java finds in files: java -cp RUNTIME:PARSER Reader FILE...
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

public class Reader {
    static final String[] LAYOUTS = {"interleave128", "interleave64", "rows1x4", "sequentialMsb", "sequentialLsb", "rowBlocks4"};
    static final String[] PARTS = {"code", "offset1", "zeroFirst", "twosComplement", "offset2"};
    static final String[] BLOCKS = {"q20", "q20G128", "pq20", "ptq10", "tq10", "tq20", "iq1Bn", "iq2Bn", "i2Sr"};

    static Object get(Object from, String name) throws Exception {
        Method method = from.getClass().getMethod(name);
        return method.invoke(from);
    }

    static List<?> list(Object from, String name) throws Exception {
        return (List<?>) get(from, name);
    }

    static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder();
        for (byte each : bytes) out.append(String.format("%02x", each));
        return out.toString();
    }

    static String bits(double number) {
        return Double.isNaN(number) ? "nan" : String.format("%016x", Double.doubleToRawLongBits(number));
    }

    static long mix(long before, Object number) {
        return (before * 31 + ((Number) number).longValue() + 1) % 1000003;
    }

    static String scales(List<Object> scales) throws Exception {
        List<String> out = new ArrayList<>();
        for (Object each : scales) out.add(bits((Double) get(each, "value")));
        return String.join(",", out);
    }

    static String text(GgufI2s.Value value) {
        switch ((int) value.kind()) {
            case 0: return String.valueOf(value.asU8());
            case 1: return String.valueOf(value.asI8());
            case 2: return String.valueOf(value.asU16());
            case 3: return String.valueOf(value.asI16());
            case 4: return String.valueOf(value.asU32());
            case 5: return String.valueOf(value.asI32());
            case 6: return bits(value.asF32().value());
            case 7: return String.valueOf(value.asBool());
            case 8: return "'" + hex(value.asStr().text());
            case 9: return "[" + value.asArr().kind()
                + value.asArr().items().stream().map(each -> " " + text(each)).collect(Collectors.joining()) + "]";
            case 10: return Long.toUnsignedString(value.asU64().asU64()); // a long of Java has a sign
            case 11: return String.valueOf(value.asI64().asI64());
            default: return bits(value.asF64().asF64());
        }
    }

    static String lines(GgufI2s.Container file) throws Exception {
        List<String> out = new ArrayList<>();
        out.add("file " + file.header().version() + " " + file.alignment() + " " + file.dataStart());
        for (GgufI2s.KeyValue pair : file.keyValues())
            out.add("key " + hex(pair.key().text()) + " " + pair.kind() + " " + text(pair.value()));
        for (GgufI2s.TensorInfo info : file.tensorInfos()) {
            String ne = info.ne().stream().map(String::valueOf).collect(Collectors.joining(","));
            out.add("tensor " + hex(info.name().text()) + " " + info.kind() + " " + info.offset() + " " + ne);
            if (info.i2s() != null) {
                String scale = bits(info.i2s().scale().value());
                out.add("i2s " + hex(info.i2s().payload()) + " " + scale + " " + hex(info.i2s().unused()));
                for (String layout : LAYOUTS) {
                    if (list(info.i2s(), layout) == null) continue;
                    long sum = 0;
                    for (Object each : list(info.i2s(), layout))
                        for (String part : PARTS) sum = mix(sum, get(each, part));
                    out.add(layout.toLowerCase(Locale.ROOT) + " " + sum);
                }
            }
            for (String name : BLOCKS) {
                Object tensor = get(info, name);
                if (tensor == null) continue;
                long sum = 0;
                List<Object> scales = new ArrayList<>();
                for (Object row : list(tensor, "eachRow")) {
                    if (name.startsWith("iq")) scales.add(get(row, "scale"));
                    for (Object block : list(row, "blocks")) {
                        if (!name.startsWith("i")) scales.add(get(block, "scale"));
                        for (Object each : list(block, "weights")) sum = mix(mix(sum, get(each, "code")), get(each, "weight"));
                    }
                }
                if (name.equals("i2Sr")) scales.addAll(list(tensor, "scales"));
                out.add(name.toLowerCase(Locale.ROOT) + " " + sum + " " + scales(scales));
            }
        }
        out.add("end");
        return String.join("\n", out);
    }

    public static void main(String[] paths) {
        for (String path : paths) {
            try {
                System.out.println(lines(GgufI2s.fromFile(path).file()));
            } catch (Throwable error) {
                System.out.println("error " + error.getClass().getSimpleName());
            }
        }
    }
}
