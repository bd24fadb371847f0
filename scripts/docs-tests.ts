import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { code } from './docs-table.ts'

/** A test file of the repository. */
export interface TestFile {
  readonly file: string
  readonly text: string
}

export function testFiles(root: string): readonly TestFile[] {
  return ['packages', 'test-e2e']
    .flatMap((directory) =>
      readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' })
        .filter((name) => /(\.test|\/conformance\/[a-z-]+)\.ts$/.test(name))
        .filter((name) => !name.includes('node_modules'))
        .map((name) => `${directory}/${name}`),
    )
    .toSorted()
    .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }))
}

/** `- \`file\`: title`, as documents name the tests that show something. */
export const NAMED_TEST: RegExp = /^- `([^`]+\.test\.ts)`: (.+)$/gm

export const hasTest = ({ text }: TestFile, title: string): boolean =>
  ["'", '"', '`'].some((quote) => text.includes(quote + title + quote))

/** Named tests with the file they are in today. */
export function withFiles(text: string, tests: readonly TestFile[]): string {
  return text.replace(NAMED_TEST, (line, named: string, title: string) => {
    const holders = tests.filter((test) => hasTest(test, title)).map(({ file }) => file)
    const [file] = holders
    return file === undefined || holders.includes(named) ? line : `- \`${file}\`: ${title}`
  })
}

/**
 * `trap T5, acceptance A4: …`. A broker has traps of its own, which its package calls `trap A2`, and acceptance test A2 is
 * something else: so only a T stands behind `trap`.
 */
const TRAP =
  /(['"`])((?:traps? T\d+|acceptance A\d+)(?:(?: and |, )(?:acceptance )?[TA]\d+)?): ((?:(?!\1).)+)\1/g

const order = (name: string): number =>
  (name.startsWith('T') ? 0 : 1_000) + Number.parseInt(name.slice(1), 10)

interface TrapTest {
  /** `T5 and A4` */
  readonly name: string
  readonly file: string
}

/** Every test that is named after a trap or an acceptance test. */
export function trapTests(tests: readonly TestFile[]): readonly TrapTest[] {
  return tests.flatMap(({ file, text }) =>
    [...text.matchAll(TRAP)].map(({ 2: names = '' }) => ({
      name: names.replaceAll(/traps? |acceptance /g, '').replace(', ', ' and '),
      file,
    })),
  )
}

/** A chapter for each trap and each acceptance test, with the files that test it. A test of two has its place in both. */
export function trapChapters(tests: readonly TestFile[]): string {
  const named = trapTests(tests).flatMap(({ file, name }) =>
    name.split(' and ').map((each) => ({ file, name: each })),
  )
  return [...Map.groupBy(named, ({ name }) => name)]
    .toSorted(([one], [other]) => order(one) - order(other))
    .map(([name, those]) => {
      const files = new Set(those.map(({ file }) => file))
      return `### ${name}\n\n${[...files].map(code).join(', ')}`
    })
    .join('\n\n')
}
