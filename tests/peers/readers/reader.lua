-- Prints what the parser in Lua finds in files: LUA_PATH="RUNTIME/?.lua;PARSER/?.lua" lua5.3 reader.lua FILE...
require("gguf_i2s")

local layouts = {"interleave_128", "interleave_64", "rows_1x4", "sequential_msb", "sequential_lsb", "row_blocks_4"}
local parts = {"code", "offset_1", "zero_first", "twos_complement", "offset_2"}
local block_types = {"q2_0", "q2_0_g128", "pq2_0", "ptq1_0", "tq1_0", "tq2_0", "iq1_bn", "iq2_bn", "i2_sr"}
local plain = {[0] = "as_u8", [1] = "as_i8", [2] = "as_u16", [3] = "as_i16", [4] = "as_u32", [5] = "as_i32", [7] = "as_bool"}

local function hex(bytes)
  return (bytes:gsub(".", function(each) return ("%02x"):format(each:byte()) end))
end

local function bits(number)
  return number ~= number and "nan" or hex(string.pack(">d", number))
end

local function whole(number)
  return ("%d"):format(number)
end

local function mix(before, number)
  return (before * 31 + number + 1) % 1000003
end

local function text(value)
  local kind = value.kind
  if kind == 6 then return bits(value.as_f32.value) end
  if kind == 8 then return "'" .. hex(value.as_str.text) end
  if kind == 9 then
    local items = {}
    for i, each in ipairs(value.as_arr.items) do items[i] = " " .. text(each) end
    return ("[%d%s]"):format(value.as_arr.kind, table.concat(items))
  end
  if kind == 10 then -- an integer of Lua has a sign
    local number = value.as_u64.as_u64
    if number >= 0 then return whole(number) end
    local tenth = (number >> 1) // 5
    return whole(tenth) .. whole(number - tenth * 10)
  end
  if kind == 11 then return whole(value.as_i64.as_i64) end
  if kind == 12 then return bits(value.as_f64.as_f64) end
  return whole(value[plain[kind]])
end

local function lines(file)
  local out = {("file %d %d %d"):format(file.header.version, file.alignment, file.data_start)}
  local function add(form, ...) out[#out + 1] = form:format(...) end
  for _, pair in ipairs(file.key_values) do add("key %s %d %s", hex(pair.key.text), pair.kind, text(pair.value)) end
  for _, info in ipairs(file.tensor_infos) do
    local ne = {}
    for i, each in ipairs(info.ne) do ne[i] = whole(each) end
    add("tensor %s %d %d %s", hex(info.name.text), info.kind, info.offset, table.concat(ne, ","))
    local tensor = info.i2s
    if tensor then
      add("i2s %s %s %s", hex(tensor.payload), bits(tensor.scale.value), hex(tensor.unused))
      for _, layout in ipairs(layouts) do
        local sum = 0
        for _, each in ipairs(tensor[layout] or {}) do
          for _, part in ipairs(parts) do sum = mix(sum, each[part]) end
        end
        if tensor[layout] then add("%s %d", (layout:gsub("_", "")), sum) end
      end
    end
    for _, name in ipairs(block_types) do
      tensor = info[name]
      if tensor then
        local sum, scales = 0, {}
        for _, row in ipairs(tensor.each_row) do
          if name:sub(1, 2) == "iq" then scales[#scales + 1] = bits(row.scale.value) end
          for _, block in ipairs(row.blocks) do
            if name ~= "i2_sr" and name:sub(1, 2) ~= "iq" then scales[#scales + 1] = bits(block.scale.value) end
            for _, each in ipairs(block.weights) do sum = mix(mix(sum, each.code), each.weight) end
          end
        end
        if name == "i2_sr" then
          for i, each in ipairs(tensor.scales) do scales[i] = bits(each.value) end
        end
        add("%s %d %s", (name:gsub("_", "")), sum, table.concat(scales, ","))
      end
    end
  end
  out[#out + 1] = "end"
  return table.concat(out, "\n")
end

for _, path in ipairs(arg) do
  local sound, result = pcall(function() return lines(GgufI2s:from_file(path).file) end)
  print(sound and result or "error of Lua")
end
