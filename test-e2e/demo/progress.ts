const WIDTH = 30
const BLANK_LINE = '\r\u001b[2K'

/** Writes lines that stay; on a terminal the last line is rewritten in place. */
export class Progress {
  readonly #stream: NodeJS.WriteStream
  #moving = ''

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
  }

  line(text = ''): void {
    const clear = this.#moving === '' ? '' : BLANK_LINE
    this.#stream.write(`${clear}${text}\n${this.#moving}`)
  }

  /** Without a text it removes the line that moves. */
  move(text = ''): void {
    if (!this.#stream.isTTY) return
    this.#stream.write(`${BLANK_LINE}${text}`)
    this.#moving = text
  }
}

export function bar(done: number, all: number): string {
  const full = Math.round((WIDTH * Math.min(done, all)) / all)
  return '█'.repeat(full) + '░'.repeat(WIDTH - full)
}
