import { bytes } from './units.ts'
import { toJson, visibleLines } from './visible.ts'

export type BodyForm = 'auto' | 'json' | 'text' | 'hex'

/** A body as text that can be shown, and a note if something is not shown. */
export interface ShownBody {
  readonly form: 'json' | 'text' | 'hex' | 'empty' | 'not-stored' | 'sealed'
  readonly text: string
  readonly note?: string | undefined
}

interface Stored {
  readonly body: Uint8Array
  /** Of the whole body. */
  readonly bodyBytes: number
  readonly isOmitted: boolean
  /** It is sealed and was not opened: what to show in its place. */
  readonly sealed?: string | undefined
}

/** `auto`: JSON if it is whole and valid, else text if it is UTF-8, else hex. */
export function bodyText(
  { body, bodyBytes, isOmitted, sealed }: Stored,
  form: BodyForm,
): ShownBody {
  if (sealed !== undefined) return { form: 'sealed', text: '', note: `The message is ${sealed}` }
  if (isOmitted) {
    const note = `The body of ${bytes(bodyBytes)} was larger than \`maxStoredBytes\`, so it is not stored. Move the message back from the broker's dead-letter place.`
    return { form: 'not-stored', text: '', note }
  }
  if (bodyBytes === 0) return { form: 'empty', text: '' }
  const isCut = body.byteLength < bodyBytes
  const note = isCut
    ? `The first ${bytes(body.byteLength)} of ${bytes(bodyBytes)}. More: --max-bytes, or --body raw.`
    : undefined
  return { ...shown(body, form, isCut), note }
}

function shown(body: Uint8Array, form: BodyForm, isCut: boolean): ShownBody {
  const text = decoded(body, isCut)
  if (form === 'hex' || text === undefined) return { form: 'hex', text: hex(body) }
  const json = isCut || form === 'text' ? undefined : parsed(text)
  return json === undefined
    ? { form: 'text', text: visibleLines(text) }
    : { form: 'json', text: json }
}

/** Undefined for bytes that are not UTF-8. A character that was cut in two at the end is left out. */
function decoded(body: Uint8Array, isCut: boolean): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body, { stream: isCut })
  } catch {
    return undefined
  }
}

/** Indented, with the numbers as they were written where JavaScript would change them. */
function parsed(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const indented = toJson(value, 2)
    return /\d{16}|\d[\d.]{16}|\d[eE]/.test(text) ? visibleLines(text) : indented
  } catch {
    return undefined
  }
}

const ROW = 16

/** Offset, bytes, and the characters that are printable ASCII. */
function hex(body: Uint8Array): string {
  const rows: string[] = []
  for (let at = 0; at < body.byteLength; at += ROW) {
    const row = body.subarray(at, at + ROW)
    const digits = Buffer.from(row).toString('hex').replace(/../g, '$& ').trim()
    const characters = [...row]
      .map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'))
      .join('')
    rows.push(`${at.toString(16).padStart(8, '0')}  ${digits.padEnd(ROW * 3 - 1)}  ${characters}`)
  }
  return rows.join('\n')
}
