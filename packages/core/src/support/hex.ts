/** The number that eight lower-case hex digits are, as a signed integer of 32 bits. */
export const wordAt = (hex: string, at: number): number =>
  (halfAt(hex, at) << 16) | halfAt(hex, at + 4)

/** The number that four lower-case hex digits are. */
export const halfAt = (hex: string, at: number): number =>
  (byteAt(hex, at) << 8) | byteAt(hex, at + 2)

const byteAt = (hex: string, at: number): number => (digitAt(hex, at) << 4) | digitAt(hex, at + 1)

function digitAt(hex: string, at: number): number {
  const code = hex.charCodeAt(at)
  return (code & 15) + (code >> 6) * 9
}
