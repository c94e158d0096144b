// An adapter in Go written from the specification, with the standard library alone: decode and dequant of I2_S.
// go run tests/peers/adapters/from_the_text.go, or: go build -o adapter ... && i2s conform run -- ./adapter
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
)

type request struct {
	Cmd, Op, Want string
	Seq           int
	Input, Output struct{ Path string }
	Args          struct{ Shape []int; Layout string }
}

// Clause 5.5: the byte of element k, and the shift of its code there.
var layouts = map[string]func(k, cols int) (int, int){
	"x86-128":        func(k, cols int) (int, int) { return k/128*32 + k%32, 6 - k%128/32*2 },
	"arm-64":         func(k, cols int) (int, int) { return k/64*16 + k%16, 6 - k%64/16*2 },
	"rows-1x4":       func(k, cols int) (int, int) { return k/cols/4*cols + k%cols, 6 - k/cols%4*2 },
	"sequential-msb": func(k, cols int) (int, int) { return k / 4, 6 - k%4*2 },
	"sequential-lsb": func(k, cols int) (int, int) { return k / 4, k % 4 * 2 },
}

const about = `{"version":1,"implementation":{"name":"Go, from the text","version":"1","language":"go"},"ops":["decode","dequant"],` +
	`"features":["type.i2_s","subnormals","layout.x86-128","layout.arm-64","layout.rows-1x4","layout.sequential-msb","layout.sequential-lsb",` +
	`"tail.replicated-8","strict.codes","strict.extent"]}`

func decode(asked request) (answer []byte, phase string) {
	data, err := os.ReadFile(asked.Input.Path)
	cols, count := asked.Args.Shape[0], asked.Args.Shape[0]*asked.Args.Shape[1]
	if err != nil || len(data) != count/4+32 {
		return nil, "extent"
	}
	scale := math.Float32frombits(binary.LittleEndian.Uint32(data[count/4:])) // clause 6.1
	for k := 0; k < count; k++ {
		trit := int8(0) // elements outside of whole blocks are 0
		if at, shift := layouts[asked.Args.Layout](k, cols); at < count/4 {
			code := data[at] >> shift & 3
			if code == 3 {
				return nil, "payload"
			}
			trit = int8(code) - 1
		}
		if asked.Op == "decode" {
			answer = append(answer, byte(trit))
		} else {
			answer = binary.LittleEndian.AppendUint32(answer, math.Float32bits(float32(trit)*scale))
		}
	}
	return answer, ""
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked request
		json.Unmarshal(lines.Bytes(), &asked)
		switch asked.Cmd {
		case "stop":
			return
		case "start":
			fmt.Println(about)
		case "dialect":
			fmt.Println(`{"ok":true}`)
		default:
			if data, phase := decode(asked); phase != "" {
				fmt.Printf("{\"seq\":%d,\"rejected\":true,\"phase\":%q}\n", asked.Seq, phase)
			} else if os.WriteFile(asked.Output.Path, data, 0o644) == nil {
				fmt.Printf("{\"seq\":%d,\"digest\":\"sha256:%x\"}\n", asked.Seq, sha256.Sum256(data))
			}
		}
	}
}
