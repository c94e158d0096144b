"""Quantize and multiply as plainly as possible, from the text of chapters 8 and 9 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.plain_decoder import PlainDecoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

#: ggml's types: elements that share a scale; 0 for a whole row.
_GROUPS = {"q2_0": 64, "pq2_0": 128, "ptq1_0": 128, "tq1_0": 256, "tq2_0": 256, "iq1_bn": 0, "iq2_bn": 0}


class PlainNumbers(PlainDecoder):
    """Computations on floats and codes."""

    # Weights (chapter 8).

    def quantize(self, w: Floats, args: Any) -> bytes:
        """The payload and tail of weights [rows, cols]."""
        scale, trits = self.ternary(w, args["rule"])
        rows, cols = w.shape
        byte, shift = self.places(args["layout"], rows, cols)
        data = np.zeros(rows * cols // 4, dtype=np.uint8)
        worth = self.codes_map("offset-1")
        for code in (0, 1, 2):
            here = trits.reshape(-1) == worth[code]
            np.bitwise_or.at(data, byte[here], (code << shift[here]).astype(np.uint8))
        return data.tobytes() + np.array([scale], dtype="<f4").tobytes() + bytes(28)

    def ternary(self, w: Floats, rule: str) -> tuple[np.float32, NDArray[Any]]:
        """The scale and the trits."""
        flat = w.reshape(-1)
        size = np.abs(flat)
        if rule == "absmax":
            scale = np.float32(size.max())
            return scale, np.where(size.astype(np.float64) < self.threshold(), 0, np.where(w.reshape(-1) > 0, 1, -1))
        if rule == "hf-first":
            beyond = size[size > np.float32(1e-6)]
            scale = np.float32(beyond[0] if beyond.size else 1e-5)
            return scale, self.rounded(flat / scale)
        if rule == "embedding-mean":
            scale = max(np.float32(size.mean(dtype=np.float32)), np.float32(1e-5))
            return scale, self.rounded(flat * (np.float32(1) / scale))
        if rule == "convert-ms":
            present = flat[flat != 0]
            scale = np.float32(present[0] if present.size else 1)
            return scale, np.clip(np.trunc(flat / scale), -1, 1)
        if rule == "loom":
            scale = np.float32(sum(map(float, size)) / flat.size) or np.float32(1)
            return scale, self.rounded_away(flat / scale)
        total = np.float32(0)
        for each in size:
            total = np.float32(total + each)
        scale = np.float32(total / np.float32(flat.size))
        return scale, self.rounded(flat * (np.float32(1) / (scale + np.float32(1e-8))))

    def threshold(self) -> float:
        """The float64 threshold below which `absmax` takes a value as 0."""
        return 1e-6

    def rounded(self, x: Floats) -> NDArray[Any]:
        """Rounded to the nearest integer, ties to even, and clipped to -1..+1."""
        return np.clip(np.rint(x), -1, 1)

    def rounded_away(self, x: Floats) -> NDArray[Any]:
        """Rounded to the nearest integer, ties away from zero, and clipped to -1..+1."""
        return np.clip(np.trunc(x.astype(np.float64) + np.copysign(0.5, x)), -1, 1)

    def ggml(self, w: Floats, type: str) -> tuple[NDArray[Any], Floats]:
        """The codes minus 1 and the scale of each element that ggml's quantizers make."""
        group = _GROUPS[type] or w.shape[1]
        parts = w.reshape(-1, group)
        largest = self.group_scale(parts)
        with np.errstate(all="ignore"):
            if _GROUPS[type]:
                inverse = np.where(largest > 0, np.float32(1) / largest, np.float32(0))
                scaled = (parts * inverse[:, None]).astype(np.float64)
                values = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
            else:
                values = np.where(np.abs(parts) < np.float32(0.5) * largest[:, None], 0, np.where(parts < 0, -1, 1))
        scales = largest if type == "iq2_bn" else largest.astype(np.float16).astype(np.float32)
        return values.reshape(w.shape), np.repeat(scales, group).reshape(w.shape)

    def group_scale(self, parts: Floats) -> Floats:
        """The scale of each group."""
        found: Floats = np.abs(parts).max(axis=1)
        return found

    # Activations and products (section 9.8).

    def activations(self, x: Floats, rule: str) -> tuple[NDArray[Any], Floats]:
        """Codes [T, K] and the factors by which the activations were multiplied."""
        if rule == "q8_k":
            blocks = x.reshape(len(x), -1, 256)
            at = np.abs(blocks).argmax(axis=2)[..., None]
            most = np.take_along_axis(blocks, at, axis=2)
            with np.errstate(all="ignore"):
                scale = np.where(most == 0, np.float32(1), -np.float32(self.largest_code()) / most).astype(np.float32)
            scale = self.for_tokens(scale)
            codes = np.clip(self.nearest(blocks * scale, rule), -128, 127).reshape(x.shape)
            return codes, scale[..., 0]
        amax = np.abs(x).max(axis=1)
        if rule == "ties-away":
            scale = np.float32(self.largest_code()) / amax
        else:
            scale = (self.largest_code() / self.floored(amax)).astype(np.float32)
        with np.errstate(all="ignore"):
            products = x * self.for_tokens(scale)[:, None]
        return np.clip(self.nearest(products, rule), -128, 127), self.for_tokens(scale)

    def largest_code(self) -> float:
        """The code of the largest element of a token."""
        return 127.0

    def floored(self, amax: Floats) -> NDArray[np.float64]:
        """The largest magnitudes, none below 1e-5."""
        return np.maximum(amax.astype(np.float64), 1e-5)

    def for_tokens(self, scale: Floats) -> Floats:
        """The scale of each token."""
        return scale

    def nearest(self, x: Floats, rule: str) -> NDArray[Any]:
        """Rounded, with ties as the rule says."""
        wide = x.astype(np.float64)
        if rule == "ties-away":
            return np.copysign(np.floor(np.abs(wide) + 0.5), wide)
        return np.floor(wide + 0.5) if rule == "ties-up" else np.rint(wide)

    def sums(self, data: bytes, codes: NDArray[Any], args: Any) -> NDArray[np.int64]:
        """The sums of trits times activation codes: the sums for codes 0 to 2, less the sum of the activations."""
        weights = self.trits(data, args) + 1
        found: NDArray[np.int64] = (
            self.added(codes.astype(np.int64), weights) - self.offset(codes.astype(np.int64))[:, None]
        )
        return found

    def added(self, codes: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.int64]:
        """The products of tokens and rows, added up."""
        found: NDArray[np.int64] = codes @ weights.T
        return found

    def offset(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number that is subtracted from the sums of each token."""
        found: NDArray[np.int64] = codes.sum(axis=1)
        return found

    def bitlinear(self, data: bytes, x: Floats, args: Any) -> Floats:
        """BitLinear of floats."""
        codes, scale = self.activations(x, "golden")
        acc = self.sums(data, np.nan_to_num(codes), args).astype(np.float32)
        with np.errstate(all="ignore"):
            return self.epilogue(acc, scale[:, None], self.scale(data, args))

    def epilogue(self, acc: Floats, s: Floats, ws: np.float32) -> Floats:
        """The floats that the integer sums represent."""
        return (acc / s) * ws
