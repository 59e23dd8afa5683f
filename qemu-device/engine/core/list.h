// SPDX-License-Identifier: GPL-2.0-or-later
// Doubly linked intrusive lists: no allocation, and an object leaves its list in O(1).
#pragma once

namespace tern {

template <class T, class Element>
class List;

// A place in a list.
class ListLink {
 public:
  ListLink() = default;
  ~ListLink() { unlink(); }
  ListLink(const ListLink&) = delete;
  ListLink& operator=(const ListLink&) = delete;

  [[nodiscard]] bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (!linked()) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 private:
  template <class T, class Element>
  friend class List;
  void link_before(ListLink& next) {
    prev_ = next.prev_;
    next_ = &next;
    prev_->next_ = next.prev_ = this;
  }

  ListLink* prev_ = nullptr;
  ListLink* next_ = nullptr;
};

// An object's link in a List<T>. The owner may be destroyed at any time: the hook leaves its list
// first.
template <class T>
class Hook : public ListLink {
 public:
  explicit Hook(T* owner) : owner_(owner) {}
  [[nodiscard]] T* owner() { return owner_; }

 private:
  T* owner_;
};

// The same as a base class of T, which takes no space in the owner.
template <class T>
class BaseHook : public ListLink {
 public:
  [[nodiscard]] T* owner() { return static_cast<T*>(this); }

 private:
  friend T;
  BaseHook() = default;
};

template <class T, class Element = Hook<T>>
class List {
 public:
  List() { head_.prev_ = head_.next_ = &head_; }
  ~List() {
    while (pop_front() != nullptr) {
    }
    head_.prev_ = head_.next_ = nullptr;
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }
  // Null if the list is empty.
  [[nodiscard]] T* front() const { return empty() ? nullptr : owner(*head_.next_); }
  // The hook must not be in a list.
  void push_back(Element& hook) { hook.link_before(head_); }
  void push_front(Element& hook) { hook.link_before(*head_.next_); }
  // Appends a hook that is in another list; one in no list stays out.
  void adopt(Element& hook) {
    if (!hook.linked()) return;
    hook.unlink();
    push_back(hook);
  }
  // Removes and returns the first object; null if the list is empty.
  T* pop_front() {
    ListLink& first = *head_.next_;
    if (&first == &head_) return nullptr;
    first.unlink();
    return owner(first);
  }
  // Appends all of `other` and leaves it empty; O(1).
  void take_all(List& other) {
    if (other.empty()) return;
    ListLink& first = *other.head_.next_;
    ListLink& last = *other.head_.prev_;
    other.head_.prev_ = other.head_.next_ = &other.head_;
    first.prev_ = head_.prev_;
    last.next_ = &head_;
    head_.prev_->next_ = &first;
    head_.prev_ = &last;
  }
  // Calls f for each object; f may remove that object from the list, but no other.
  template <class F>
  void for_each(F&& f) const {
    for (ListLink* at = head_.next_; at != &head_;) {
      ListLink& link = *at;
      at = at->next_;
      f(*owner(link));
    }
  }
  // Calls f for the link of each object.
  template <class F>
  void for_each_link(F&& f) const {
    for (const ListLink* at = head_.next_; at != &head_; at = at->next_) f(*at);
  }

 private:
  [[nodiscard]] static T* owner(ListLink& link) { return static_cast<Element&>(link).owner(); }
  ListLink head_;  // between the last hook and the first
};

}  // namespace tern
