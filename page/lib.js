// The parts of Preact and htm that the page uses, in one place.

export {
  Component,
  h,
  html,
  render,
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/preact-htm.js";
