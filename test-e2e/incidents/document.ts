import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const FILE = join(import.meta.dirname, '../../docs/operations.md')

/** What an operator sees: `place` is a panel of the dashboard or a page of the console. */
export interface Sign {
  readonly where: 'Alert' | 'Dashboard' | 'Console'
  readonly place: string
  readonly texts: readonly string[]
  /** `no` before a text: it is not there. */
  readonly absent: readonly string[]
}

/** A terminal in the document: commands, and what they print. */
export interface Session {
  readonly text: string
  readonly commands: readonly string[]
}

/** One incident of docs/operations.md. */
export interface Chapter {
  readonly title: string
  readonly signs: readonly Sign[]
  readonly sessions: readonly Session[]
}

const ROW = /^\| (Alert|Dashboard|Console) +\| (.+) \|$/gm
const SESSION = /^```console\n([\s\S]*?)^```$/gm

export function chapterOf(title: string): Chapter {
  const text = readChapter(title)
  return {
    title,
    signs: [...text.matchAll(ROW)].map(([, where, cell = '']) => ({
      where: where as Sign['where'],
      place: /^[“_]([^”_]+)[”_]/.exec(cell)?.[1] ?? '',
      texts: [...cell.matchAll(/(?<!no )`([^`]+)`/g)].map(([, shown = '']) => shown),
      absent: [...cell.matchAll(/(?<=no )`([^`]+)`/g)].map(([, shown = '']) => shown),
    })),
    sessions: [...text.matchAll(SESSION)].map(([, session = '']) => ({
      text: session,
      commands: [...session.matchAll(/^\$ (.+)$/gm)].map(([, command = '']) => command),
    })),
  }
}

function readChapter(title: string): string {
  const [, rest] = readFileSync(FILE, 'utf8').split(`\n### ${title}\n`)
  if (rest === undefined) throw new Error(`docs/operations.md has no chapter "${title}"`)
  return rest.split(/^##/m)[0] ?? ''
}

/** What differs between two runs of the same incident: ids that are drawn, times, sizes and rates. */
export function normal(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3}Z)?/g, 'TIME')
    .replaceAll(/\b\d{13}\b/g, 'TIME')
    .replaceAll(/\b\d+ (ms|s|min|h|d)\b( \d+ (s|min|h|ms)\b)?/g, 'SPAN')
    .replaceAll(/\b[\d.]+ (bytes|KiB|MiB)\b/g, 'SIZE')
    .replaceAll('SIZE and SPAN behind', 'SIZE behind')
    .replaceAll(/\b(connect|read|write) ECONNRESET( \S+:\d+)?/g, 'ECONNRESET')
    .replaceAll(/^(billing +)[1-9]\d*( +)[1-9]\d*( +\d+ +\d+ +\d+ +\d+ )/gm, '$1N$2N$3')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Left out of the document: the sizes of the tables, and the frames of a stack. */
export const shortened = (output: string): string =>
  output.replace(/^TABLE {2}[\s\S]*/m, '…\n').replaceAll(/(^ +at .*\n)+/gm, (frames) => {
    const [indent = ''] = /^ +/.exec(frames) ?? []
    return `${indent}at …\n`
  })

/** Puts what was printed in the place of an older session. */
export function rewrite({ title }: Chapter, session: Session, printed: string): void {
  const fenced = (text: string): string => `\`\`\`console\n${text}\`\`\``
  const chapter = readChapter(title)
  const changed = chapter.replace(fenced(session.text), () => fenced(printed))
  const document = readFileSync(FILE, 'utf8')
  writeFileSync(
    FILE,
    document.replace(chapter, () => changed),
  )
}
