# Prints what the parser in Ruby finds in files: ruby -I RUNTIME/lib -I PARSER reader.rb FILE...
require "gguf_i2s"

LAYOUTS = %i[interleave_128 interleave_64 rows_1x4 sequential_msb sequential_lsb row_blocks_4]
PARTS = %i[code offset_1 zero_first twos_complement offset_2]
BLOCKS = %i[q2_0 q2_0_g128 pq2_0 ptq1_0 tq1_0 tq2_0 iq1_bn iq2_bn i2_sr]
PLAIN = { 0 => :as_u8, 1 => :as_i8, 2 => :as_u16, 3 => :as_i16, 4 => :as_u32, 5 => :as_i32, 7 => :as_bool }

def hex(bytes) = bytes.unpack1("H*")
def bits(number) = number.nan? ? "nan" : hex([number].pack("G"))
def mixed(numbers) = numbers.reduce(0) { |mix, number| (mix * 31 + number + 1) % 1_000_003 }
def plain(name) = name.to_s.delete("_")

def text(value)
  case value.kind
  when 6 then bits(value.as_f32.value)
  when 8 then "'" + hex(value.as_str.text)
  when 9 then "[#{value.as_arr.kind}#{value.as_arr.items.map { |each| ' ' + text(each) }.join}]"
  when 10 then value.as_u64.as_u64.to_s
  when 11 then value.as_i64.as_i64.to_s
  when 12 then bits(value.as_f64.as_f64)
  else value.send(PLAIN[value.kind]).to_s
  end
end

def lines(file)
  out = ["file #{file.header.version} #{file.alignment} #{file.data_start}"]
  file.key_values.each { |pair| out << "key #{hex(pair.key.text)} #{pair.kind} #{text(pair.value)}" }
  file.tensor_infos.each do |info|
    out << "tensor #{hex(info.name.text)} #{info.kind} #{info.offset} #{info.ne.join(',')}"
    if info.i2s
      out << "i2s #{hex(info.i2s.payload)} #{bits(info.i2s.scale.value)} #{hex(info.i2s.unused)}"
      LAYOUTS.each do |layout|
        elements = info.i2s.send(layout)
        out << "#{plain(layout)} #{mixed(elements.flat_map { |each| PARTS.map { |part| each.send(part) } })}" if elements
      end
    end
    BLOCKS.each do |name|
      next unless (tensor = info.send(name))
      blocks = tensor.each_row.flat_map(&:blocks)
      held = blocks.flat_map { |block| block.weights.flat_map { |each| [each.code, each.weight] } }
      scales = name == :i2_sr ? tensor.scales : (name.start_with?("iq") ? tensor.each_row : blocks).map(&:scale)
      out << "#{plain(name)} #{mixed(held)} #{scales.map { |each| bits(each.value) }.join(',')}"
    end
  end
  out << "end"
end

ARGV.each do |path|
  puts lines(GgufI2s.from_file(path).file)
rescue StandardError, SystemStackError, NoMemoryError => error
  puts "error #{error.class}"
end
