/** Fills the view with the bytes that the text begins with, in lower-case hex digits. Dashes between them do not count. */
export function readHex(hex: string, view: DataView): void {
  let at = 0
  let word = 0
  for (let digit = 1; digit <= view.byteLength * 2; digit++) {
    let code = hex.charCodeAt(at++)
    if (code === DASH) code = hex.charCodeAt(at++)
    word = (word << 4) | ((code & 15) + (code >> 6) * 9)
    if (digit % 8 === 0) view.setInt32(digit / 2 - 4, word)
  }
}

const DASH = 45
