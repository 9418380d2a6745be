// Package histories keeps what workflows really went through, for the replay
// tests of package workflows. It knows which test records which history and
// which paths of the workflow that must contain: a recording that lost one, or
// that another test made under the same name, is refused.
package histories
