// Prints what the parser in Go finds in files: go run . FILE..., with the parser in the same package.
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"

	"github.com/kaitai-io/kaitai_struct_go_runtime/kaitai"
)

var layouts = []string{"Interleave128", "Interleave64", "Rows1x4", "SequentialMsb", "SequentialLsb", "RowBlocks4"}
var parts = []string{"Code", "Offset1", "ZeroFirst", "TwosComplement", "Offset2"}
var blockTypes = []string{"Q20", "Q20G128", "Pq20", "Ptq10", "Tq10", "Tq20", "Iq1Bn", "Iq2Bn", "I2Sr"}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// get is a field, or the result of a method that may fail.
func get(from reflect.Value, name string) reflect.Value {
	if method := from.MethodByName(name); method.IsValid() {
		results := method.Call(nil)
		if !results[1].IsNil() {
			panic(results[1].Interface())
		}
		return results[0]
	}
	return from.Elem().FieldByName(name)
}

func each(list reflect.Value, do func(reflect.Value)) {
	for i := 0; i < list.Len(); i++ {
		do(list.Index(i))
	}
}

func bits(number float64) string {
	if math.IsNaN(number) {
		return "nan"
	}
	return fmt.Sprintf("%016x", math.Float64bits(number))
}

func mix(before int64, held reflect.Value) int64 {
	var number int64
	if held.CanInt() {
		number = held.Int()
	} else {
		number = int64(held.Uint())
	}
	return (before*31 + number + 1) % 1000003
}

func text(value *GgufI2s_Value) string {
	switch value.Kind {
	case 0:
		return fmt.Sprint(value.AsU8)
	case 1:
		return fmt.Sprint(value.AsI8)
	case 2:
		return fmt.Sprint(value.AsU16)
	case 3:
		return fmt.Sprint(value.AsI16)
	case 4:
		return fmt.Sprint(value.AsU32)
	case 5:
		return fmt.Sprint(value.AsI32)
	case 6:
		return bits(must(value.AsF32.Value()))
	case 7:
		return fmt.Sprint(value.AsBool)
	case 8:
		return "'" + hex.EncodeToString(value.AsStr.Text)
	case 9:
		out := fmt.Sprintf("[%d", value.AsArr.Kind)
		for _, item := range value.AsArr.Items {
			out += " " + text(item)
		}
		return out + "]"
	case 10:
		return fmt.Sprint(must(value.AsU64.AsU64()))
	case 11:
		return fmt.Sprint(must(value.AsI64.AsI64()))
	default:
		return bits(must(value.AsF64.AsF64()))
	}
}

func lines(data []byte) (out []string) {
	defer func() {
		if err := recover(); err != nil {
			out = append(out, "error of Go")
		}
	}()
	root := NewGgufI2s()
	if err := root.Read(kaitai.NewStream(bytes.NewReader(data)), nil, root); err != nil {
		panic(err)
	}
	file := root.File
	add := func(form string, values ...any) { out = append(out, fmt.Sprintf(form, values...)) }
	add("file %d %d %d", file.Header.Version, must(file.Alignment()), must(file.DataStart()))
	for _, pair := range file.KeyValues {
		add("key %x %d %s", pair.Key.Text, pair.Kind, text(pair.Value))
	}
	for _, info := range file.TensorInfos {
		ne := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(info.Ne)), ","), "[]")
		add("tensor %x %d %d %s", info.Name.Text, info.Kind, info.Offset, ne)
		if tensor := must(info.I2s()); tensor != nil {
			add("i2s %x %s %x", tensor.Payload, bits(must(tensor.Scale.Value())), tensor.Unused)
			for _, layout := range layouts {
				elements := get(reflect.ValueOf(tensor), layout)
				sum := int64(0)
				each(elements, func(element reflect.Value) {
					for _, part := range parts {
						sum = mix(sum, get(element, part))
					}
				})
				if elements.Len() > 0 {
					add("%s %d", strings.ToLower(layout), sum)
				}
			}
		}
		for _, name := range blockTypes {
			tensor := get(reflect.ValueOf(info), name)
			if tensor.IsNil() {
				continue
			}
			sum, scales := int64(0), []string{}
			scale := func(of reflect.Value) {
				scales = append(scales, bits(get(of, "Value").Float()))
			}
			each(get(tensor, "EachRow"), func(row reflect.Value) {
				if name[:2] == "Iq" {
					scale(get(row, "Scale"))
				}
				each(get(row, "Blocks"), func(block reflect.Value) {
					if name[0] != 'I' {
						scale(get(block, "Scale"))
					}
					each(get(block, "Weights"), func(weight reflect.Value) {
						sum = mix(mix(sum, get(weight, "Code")), get(weight, "Weight"))
					})
				})
			})
			if name == "I2Sr" {
				each(get(tensor, "Scales"), scale)
			}
			add("%s %d %s", strings.ToLower(name), sum, strings.Join(scales, ","))
		}
	}
	add("end")
	return out
}

func main() {
	for _, path := range os.Args[1:] {
		fmt.Println(strings.Join(lines(must(os.ReadFile(path))), "\n"))
	}
}
