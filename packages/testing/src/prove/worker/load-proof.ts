import { pathToFileURL } from 'node:url'
import { textOf } from '../errors.ts'
import type { Proof } from '../proof.ts'

const NAMES = ['start', 'event', 'count'] as const

/** Loads the user's file: its exports, or those of its default export. @throws An error that says what to do. */
export async function loadProof(file: string): Promise<Proof> {
  const module = await import(pathToFileURL(file).href).catch((error: unknown) => {
    throw new Error(withAdvice(error), { cause: error })
  })
  const given: unknown = 'start' in module ? module : Reflect.get(module, 'default')
  const proof = typeof given === 'object' && given !== null ? given : {}
  const missing = NAMES.filter((name) => typeof Reflect.get(proof, name) !== 'function')
  if (missing.length === 0) return proof as Proof
  throw new Error(
    `It does not export ${missing.join(', ')}. Export the functions start(env), event(n) and count(env).`,
  )
}

function withAdvice(error: unknown): string {
  const code = error instanceof Error ? Reflect.get(error, 'code') : undefined
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    return `${textOf(error)}. Node ${process.versions.node} does not run TypeScript. Use Node 22.18 or newer, or set NODE_OPTIONS="--import tsx" with the package tsx.`
  }
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return `${textOf(error)} Node only strips types. Enums, decorators and parameter properties need a loader: set NODE_OPTIONS="--import tsx" with the package tsx.`
  }
  if (code === 'ERR_MODULE_NOT_FOUND') {
    return `${textOf(error)}. Install what it imports, and write the extension of relative imports (./billing.ts).`
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
