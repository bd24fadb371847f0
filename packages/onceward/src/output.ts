import { styleText } from 'node:util'
import { toJson } from './render/visible.ts'

type Style = Parameters<typeof styleText>[0]

/** Where a command writes. */
export interface Output {
  readonly isJson: boolean
  /** Standard error is a terminal, so a progress line may be shown. */
  readonly showsProgress: boolean
  /** The answer, on standard output: text, or the value as one JSON document. */
  answer(value: unknown, text: () => string): void
  /** Remarks that are not part of the answer, on standard error. */
  note(text: string): void
  progress(text: string): void
  /** Marks text if standard output is a terminal. */
  style(style: Style, text: string): string
}

export function createOutput(isJson: boolean): Output {
  const { stdout, stderr } = process
  const showsProgress = stderr.isTTY === true && !isJson
  return {
    ...{ isJson, showsProgress },
    answer: (value, text) => {
      stdout.write(isJson ? `${toJson(value)}\n` : `${text()}\n`)
    },
    note: (text) => {
      stderr.write(`${text}\n`)
    },
    progress: (text) => {
      if (showsProgress) stderr.write(`\r\u001b[2K${text}`)
    },
    // NO_COLOR, FORCE_COLOR and terminals without colours are known to styleText.
    style: (style, text) => styleText(style, text, { stream: stdout }),
  }
}
