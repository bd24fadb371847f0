import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Directories whose declarations a document may name. */
const SOURCES = ['packages', 'test-e2e', 'bench', 'scripts', 'mutation']

/** What a document names: files or directories, and exported names or their members. */
export interface Named {
  readonly paths: readonly string[]
  readonly names: readonly string[]
}

/**
 * Reads what a document names in code spans and in fenced blocks.
 *
 * - A path is a token with a file extension or a slash: `run/process.ts`, `postgres/src/inbox/`,
 *   `packages/sqs|kafka/src/settle.ts`, `packages/<broker>/src/receive.ts`.
 * - A name is an identifier with a capital letter or with parentheses: `DeliveryBuffer`, `portOf`, `settle()`,
 *   `Guard.process`. Other words in code spans (commands, values, SQL) are not read, and of fenced blocks only paths.
 */
export function namedIn(text: string): Named {
  const fences = [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)]
  // Samples in TypeScript are compiled, which checks more than this reader could.
  const drawings = fences.filter(([, language]) => language === '').map(([, , body = '']) => body)
  const prose = text.replace(/^```[\s\S]*?^```/gm, '')
  const spans = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) =>
    span.replaceAll('\\|', '|'),
  )
  const drawn = drawings.flatMap((drawing) => drawing.split(/[\s(),;]+|:(?=\s|$)/)).filter(isFile)
  return {
    paths: [...new Set([...spans.filter(isPath), ...drawn])],
    names: [...new Set(spans.filter((span) => !isPath(span)).flatMap(namesOf))],
  }
}

/** Paths and names of a document that are nowhere in the repository. */
export function missingFrom(
  text: string,
  { foreign = [] }: MissingOptions = {},
): readonly string[] {
  const { paths, names } = namedIn(text)
  const declared = declarations()
  return [
    ...paths.filter((path) => !exists(path)),
    ...names.filter((name) => !declared.has(name)),
  ].filter((each) => !foreign.includes(each))
}

export interface MissingOptions {
  /** Names of other software that the document mentions. */
  readonly foreign?: readonly string[]
}

/** The same for a file of the repository, given by its path from the root. */
export function missingIn(file: string, options: MissingOptions = {}): readonly string[] {
  return missingFrom(readFileSync(join(root, file), 'utf8'), options)
}

const isFile = (token: string): boolean => /^[\w.<>|@/-]+\.(ts|mjs|json|sql|md|lua)$/.test(token)

/** `and/or` is no path, so that a directory ends with a slash or begins at a directory of the root. */
const isPath = (token: string): boolean =>
  isFile(token) ||
  /^[\w.<>|-]+(\/[\w.<>|-]+)*\/$/.test(token) ||
  /^(packages|test-e2e|bench|scripts|docs|mutation|@onceward)\/[\w.<>|/-]+$/.test(token)

const IDENTIFIER = /^[A-Za-z_$][\w$]*(?:<[\w, ]+>)?(?:\.[A-Za-z_$][\w$]*)*(?:\(\))?$/

function namesOf(span: string): readonly string[] {
  const isName = IDENTIFIER.test(span) && (/[A-Z]/.test(span) || span.endsWith('()'))
  return isName ? span.replace(/<.*>|\(\)/g, '').split('.') : []
}

/** A path from the root or the end of one; `<word>` stands for any one segment, `a|b` for each of the two. */
function exists(path: string): boolean {
  const [, name, entry] = /^@onceward\/([\w-]+)(?:\/([\w-]+))?$/.exec(path) ?? []
  if (entry !== undefined) return hasEntry(`packages/${name}/package.json`, `./${entry}`)
  const own = name === undefined ? path : `packages/${name}/`
  return alternativesOf(own).every((each) => {
    const pattern = each.replaceAll(/[.$]/g, '\\$&').replaceAll(/<[\w-]+>/g, '[^/\\n]+')
    return new RegExp(
      `(?:^|/)${pattern.replace(/\/$/, '')}${each.endsWith('/') ? '/' : '$'}`,
      'm',
    ).test(repositoryFiles())
  })
}

function hasEntry(manifest: string, entry: string): boolean {
  if (!exists(manifest)) return false
  const { exports } = JSON.parse(readFileSync(join(root, manifest), 'utf8'))
  return entry in exports
}

function alternativesOf(path: string): readonly string[] {
  return path
    .split('/')
    .reduce<readonly string[]>(
      (heads, segment) =>
        heads.flatMap((head) =>
          segment.split('|').map((each) => (head === '' ? each : `${head}/${each}`)),
        ),
      [''],
    )
}

let listed: string | undefined

/** Every file of the repository, one a line; directories end with a slash. */
function repositoryFiles(): string {
  listed ??= [...walk('')].join('\n')
  return listed
}

const LEFT_OUT = new Set(['node_modules', 'dist', '.git', 'coverage'])

function* walk(directory: string): Generator<string> {
  for (const entry of readdirSync(join(root, directory), { withFileTypes: true })) {
    if (LEFT_OUT.has(entry.name)) continue
    const path = `${directory}${entry.name}`
    if (!entry.isDirectory()) yield path
    else {
      yield path
      yield `${path}/`
      yield* walk(`${path}/`)
    }
  }
}

const EXPORTED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type) (\w+)/gm
const REEXPORTED = /^export (?:type )?\{([^}]*)\}/gm
/** Members of exported types and classes: methods, properties, options. */
const MEMBER = /^ {2,4}(?:readonly |static |async |get )*'?(\w+)'?\??[:(<]/gm

let declared: ReadonlySet<string> | undefined

function declarations(): ReadonlySet<string> {
  declared ??= new Set(
    repositoryFiles()
      .split('\n')
      .filter(
        (file) => /\.(ts|mjs)$/.test(file) && SOURCES.some((each) => file.startsWith(`${each}/`)),
      )
      .filter((file) => !/\.test(-d)?\.ts$/.test(file))
      .flatMap((file) => declaredIn(readFileSync(join(root, file), 'utf8'))),
  )
  return declared
}

function declaredIn(text: string): readonly string[] {
  const single = [EXPORTED, MEMBER].flatMap((pattern) =>
    [...text.matchAll(pattern)].map(([, name = '']) => name),
  )
  const lists = [...text.matchAll(REEXPORTED)].flatMap(([, list = '']) => list.split(/[\s,]+/))
  return [...single, ...lists]
}
